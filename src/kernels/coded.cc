#include "kernels/coded.h"

#include <algorithm>
#include <cmath>

namespace zt {

namespace {

constexpr int64_t kScales = 32, kRows = 32, kColumns = 16;

int64_t row_bytes(BlockFormat f) { return element_bits(f) * 4; }   // of 32 codes

// Code i of a row of 32, in the order that amx_unpack.inl reads.
void put(BlockFormat f, uint8_t* row, int64_t i, uint8_t code) {
  if (element_bits(f) == 8) {
    row[i] = code;
    return;
  }
  row[i % 16] = static_cast<uint8_t>(row[i % 16] | (code & 15) << (i < 16 ? 0 : 4));
  if (element_bits(f) == 6) row[16 + i % 8] = static_cast<uint8_t>(row[16 + i % 8] | (code >> 4) << (2 * (i / 8)));
}

void encode(BlockFormat f, const float* x, int64_t n, uint8_t* scale, uint8_t* codes) {
  float block[kBlockElements] = {};
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(x[i])) fail(ErrorKind::model, "a weight is {}, wanted a finite number; the checkpoint is damaged", x[i]);
    block[i] = x[i];
  }
  encode_block(f, block, scale, codes);
}

}  // namespace

bool block_format_of(Compute c, BlockFormat& f) {
  switch (c) {
    case Compute::mxfp8: return f = BlockFormat::mxfp8_e4m3, true;
    case Compute::mxfp6: return f = BlockFormat::mxfp6_e2m3, true;
    case Compute::mxfp4: return f = BlockFormat::mxfp4_e2m1, true;
    case Compute::mxint8: return f = BlockFormat::mxint8, true;
    default: return false;
  }
}

void round_to_blocks(BlockFormat f, float* rows, int64_t n, int64_t k) {
  uint8_t scale = 0, codes[kBlockElements];
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t i = 0; i < k; i += kBlockElements) {
      float* x = rows + r * k + i;
      const int64_t m = std::min(kBlockElements, k - i);
      encode(f, x, m, &scale, codes);
      for (int64_t j = 0; j < m; ++j) x[j] = element_value(f, codes[j]) * scale_value(scale);
    }
  }
}

int64_t coded_panel_bytes(BlockFormat f, int64_t k) { return (k + kBlockElements - 1) / kBlockElements * (kScales + kRows * row_bytes(f)); }

void encode_columns(BlockFormat f, const float* rows, int64_t n, int64_t k, int64_t tile, uint8_t* panel) {
  uint8_t codes[kBlockElements];
  for (int64_t i = 0; i < k; i += kBlockElements, panel += kScales + kRows * row_bytes(f)) {
    for (int64_t c = 0; c < n; ++c) {
      encode(f, rows + c * k + i, std::min(kBlockElements, k - i), panel + tile * kColumns + c, codes);
      for (int64_t j = 0; j < kBlockElements; ++j) {
        put(f, panel + kScales + (tile * kColumns + j / 2) * row_bytes(f), c * 2 + j % 2, codes[j]);
      }
    }
  }
}

std::vector<uint16_t> code_table(BlockFormat f) {
  std::vector<uint16_t> t;
  for (int code = 0; code < 1 << element_bits(f); ++code) t.push_back(to_bf16(element_value(f, static_cast<uint8_t>(code))).bits);
  return t;
}

}  // namespace zt
