#include "tensor/block_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace zt {

namespace {

// Sign, `exponent` bits with bias 2^(exponent - 1) - 1, `mantissa` bits. mxint8: no exponent, two's complement in 64ths.
struct Layout {
  std::string_view name;
  int bits, exponent, mantissa;
  float max;
  int max_exponent;   // of the greatest element
  int bias() const { return (1 << (exponent - 1)) - 1; }
};

constexpr Layout kLayouts[] = {{"mxfp8_e4m3", 8, 4, 3, 448, 8},
                               {"mxfp6_e2m3", 6, 2, 3, 7.5f, 2},
                               {"mxfp6_e3m2", 6, 3, 2, 28, 4},
                               {"mxfp4_e2m1", 4, 2, 1, 6, 2},
                               {"mxint8", 8, 0, 6, 127.0f / 64, 0}};

const Layout& layout(BlockFormat f) { return kLayouts[static_cast<size_t>(f)]; }

// 2^e, -126 .. 127.
float power_of_two(int e) { return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23); }

// To an integer, 0 <= x < 2^22. Ties go to even in the mode that every thread starts in.
int rounded(float x) { return static_cast<int>((x + 0x1p23f) - 0x1p23f); }

// Code of a magnitude, rounded; of NaN the greatest. No call of the mathematics library: models of 20 G weights are rounded here.
uint8_t magnitude_code(const Layout& l, float a) {
  a = a < l.max ? a : l.max;
  const int least = 1 - l.bias();   // exponent of the subnormals too
  const int e = std::max(static_cast<int>(std::bit_cast<uint32_t>(a) >> 23) - 127, least);
  const int steps = rounded(a * power_of_two(l.mantissa - e));   // in units of the last place: 2^mantissa .. 2^(mantissa + 1)
  return static_cast<uint8_t>(((e - least) << l.mantissa) + steps);                    // a carry goes into the exponent by itself
}

}  // namespace

int element_bits(BlockFormat f) { return layout(f).bits; }
std::string_view block_format_name(BlockFormat f) { return layout(f).name; }
float max_element(BlockFormat f) { return layout(f).max; }
float scale_value(uint8_t scale) { return std::ldexp(1.0f, scale - 127); }

float element_value(BlockFormat f, uint8_t code) {
  const Layout& l = layout(f);
  if (f == BlockFormat::mxint8) return static_cast<float>(static_cast<int8_t>(code)) / 64;
  const int magnitude = code & ((1 << (l.bits - 1)) - 1), e = magnitude >> l.mantissa, m = magnitude & ((1 << l.mantissa) - 1);
  if (f == BlockFormat::mxfp8_e4m3 && magnitude == 0x7F) return std::numeric_limits<float>::quiet_NaN();
  const float value = e == 0 ? std::ldexp(static_cast<float>(m), 1 - l.bias() - l.mantissa)
                             : std::ldexp(static_cast<float>(m + (1 << l.mantissa)), e - l.bias() - l.mantissa);
  return code >> (l.bits - 1) & 1 ? -value : value;
}

uint8_t element_code(BlockFormat f, float x) {
  const Layout& l = layout(f);
  return static_cast<uint8_t>(magnitude_code(l, std::abs(x)) | (std::signbit(x) ? 1 << (l.bits - 1) : 0));
}

void encode_block(BlockFormat f, const float* x, uint8_t* scale, uint8_t* codes) {
  const Layout& l = layout(f);
  float top = 0;
  for (int64_t i = 0; i < kBlockElements; ++i) top = std::max(top, std::abs(x[i]));
  const int e = top > 0 ? std::clamp(std::ilogb(top) - l.max_exponent, -100, 100) : -100;
  *scale = static_cast<uint8_t>(e + 127);
  const float shrink = power_of_two(-e);
  for (int64_t i = 0; i < kBlockElements; ++i) {
    const float q = x[i] * shrink;
    if (f == BlockFormat::mxint8) {
      codes[i] = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(q * 64), -127.0f, 127.0f)));
    } else {
      codes[i] = element_code(f, q);
    }
  }
}

}  // namespace zt
