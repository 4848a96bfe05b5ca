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
};

std::string_view compute_name(Compute c);                        // "f32", "bf16", ...
bool compute_from_name(std::string_view name, Compute& out);     // false: no such name
std::string compute_names();                                     // all of them, for a message: "f32, bf16, ..."

}  // namespace zt
