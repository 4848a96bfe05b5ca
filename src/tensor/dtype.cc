#include "tensor/dtype.h"

#include <cmath>

namespace zt {

namespace {
struct Row { DType type; const char* name; int bytes; };
constexpr Row kRows[] = {{DType::f64, "F64", 8},         {DType::f32, "F32", 4},         {DType::bf16, "BF16", 2},
                         {DType::f16, "F16", 2},         {DType::f8_e4m3, "F8_E4M3", 1}, {DType::f8_e5m2, "F8_E5M2", 1},
                         {DType::i64, "I64", 8},         {DType::i32, "I32", 4},         {DType::i16, "I16", 2},
                         {DType::i8, "I8", 1},           {DType::u8, "U8", 1},           {DType::boolean, "BOOL", 1}};
}  // namespace

int dtype_bytes(DType t) { return kRows[static_cast<int>(t)].bytes; }
std::string_view dtype_name(DType t) { return kRows[static_cast<int>(t)].name; }

bool dtype_from_name(std::string_view name, DType& out) {
  for (const Row& r : kRows)
    if (name == r.name) return out = r.type, true;
  return false;
}

float to_float(f16_t x) {
  uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16, exponent = (x.bits >> 10) & 31, mantissa = x.bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent == 0) {
    float v = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -v : v;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

f16_t to_f16(float x) {
  uint32_t u = std::bit_cast<uint32_t>(x), sign = (u >> 16) & 0x8000;
  u &= 0x7FFFFFFFu;
  if (u > 0x7F800000u) return {static_cast<uint16_t>(sign | 0x7E00)};
  if (u >= 0x47800000u) return {static_cast<uint16_t>(sign | 0x7C00)};   // 65536 and more; 65520..65535 round up below
  if (u < 0x38800000u) {                                                 // subnormal: units of 2^-24, ties to even
    float v = std::bit_cast<float>(u) * 0x1p24f;
    return {static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(v)))};
  }
  u += 0xFFFu + ((u >> 13) & 1);
  return {static_cast<uint16_t>(sign | ((u - 0x38000000u) >> 13))};
}

float f8_e4m3_to_float(uint8_t x) {   // OCP e4m3fn: bias 7, no infinity, 0x7F is NaN
  int e = (x >> 3) & 15, m = x & 7;
  float v = (x & 0x7F) == 0x7F ? NAN : e == 0 ? std::ldexp(static_cast<float>(m), -9) : std::ldexp(static_cast<float>(8 + m), e - 10);
  return x & 0x80 ? -v : v;
}

float f8_e5m2_to_float(uint8_t x) { return to_float(f16_t{static_cast<uint16_t>(x << 8)}); }

}  // namespace zt
