#pragma once
// How a matrix product or an attention is computed. Sums are float32 always; the name says what the operands become.
#include <cstdint>
#include <string>
#include <string_view>

namespace zt {

enum class Compute : uint8_t {
  f32,      // operands as they are
  bf16,     // both operands rounded to bf16
  bf16x2,   // weights rounded to bf16, activations the sum of two bf16 (16 bits of 24): error 2^-17 of each product, as its weight is given
  bf16x3,   // float32's accuracy: activations are three bf16, all 24 bits; weights that are not exactly bf16 are computed as f32
  // Weights in OCP MX blocks of 32 (tensor/block_format.h), activations rounded to bf16. Tile units unpack them beside the product, so they
  // need 8.25, 6.25 or 4.25 bits of memory a weight; other tables keep the rounded values in float32.
  mxfp8,    // e4m3
  mxfp6,    // e2m3
  mxfp4,    // e2m1
  mxint8,
};

// How attention runs beside layers of this kind: f32 or bf16.
constexpr Compute attention_compute(Compute c) {
  return c == Compute::f32 || c == Compute::bf16x2 || c == Compute::bf16x3 ? Compute::f32 : Compute::bf16;
}

std::string_view compute_name(Compute c);                        // "f32", "bf16", ...
bool compute_from_name(std::string_view name, Compute& out);     // false: no such name
std::string compute_names();                                     // all of them, for a message: "f32, bf16, ..."

}  // namespace zt
