#pragma once
// Element types and their conversions. bf16 and f16 round to nearest, ties to even.
#include <bit>
#include <cstdint>
#include <string_view>

namespace zt {

enum class DType : uint8_t { f64, f32, bf16, f16, f8_e4m3, f8_e5m2, i64, i32, i16, i8, u8, boolean };

int dtype_bytes(DType t);
std::string_view dtype_name(DType t);           // safetensors spelling: "F32", "BF16", ...
bool dtype_from_name(std::string_view name, DType& out);

struct bf16_t { uint16_t bits; };
struct f16_t { uint16_t bits; };

inline float to_float(bf16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

inline bf16_t to_bf16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((u >> 16) | 0x40)};   // NaN stays NaN
  return {static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1)) >> 16)};
}

float to_float(f16_t x);
f16_t to_f16(float x);
float f8_e4m3_to_float(uint8_t x);
float f8_e5m2_to_float(uint8_t x);

}  // namespace zt
