#pragma once
// Block formats of the OCP Microscaling (MX) specification 1.0: 32 elements share a scale 2^(s - 127) (E8M0).
#include <cstdint>
#include <string_view>

namespace zt {

enum class BlockFormat : uint8_t { mxfp8_e4m3, mxfp6_e2m3, mxfp6_e3m2, mxfp4_e2m1, mxint8 };

constexpr int64_t kBlockElements = 32;

int element_bits(BlockFormat f);                        // 8, 6, 6, 4, 8
std::string_view block_format_name(BlockFormat f);
float max_element(BlockFormat f);                       // 448, 7.5, 28, 6, 127 / 64
// The value of an element's code (low element_bits), without the scale; NaN for the codes that e4m3 keeps for it.
// Every value of every format is exactly a bf16, and so is its product with a scale that encode_block gives.
float element_value(BlockFormat f, uint8_t code);
// Code of the element nearest to a finite x, ties to even, saturated; of a format of floats (not mxint8).
uint8_t element_code(BlockFormat f, float x);

// Codes of 32 finite values, one in each byte. The scale is the power of two of the specification, 6.3: that of the greatest magnitude over
// that of the greatest element; kept within 2^-100 .. 2^100. Elements round to nearest, ties to even, and saturate.
void encode_block(BlockFormat f, const float* x, uint8_t* scale, uint8_t* codes);
float scale_value(uint8_t scale);                       // 2^(scale - 127)

}  // namespace zt
