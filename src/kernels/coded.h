#pragma once
// Weights in block formats (tensor/block_format.h) as the tile products read them.
#include <span>

#include "kernels/compute.h"
#include "tensor/block_format.h"
#include "tensor/tensor.h"

namespace zt {

// The block format of mxfp8, mxfp6 (e2m3), mxfp4, mxint8; false for the others.
bool block_format_of(Compute c, BlockFormat& f);

// Rounds rows of `k` values to the format, in place: blocks of 32 along k, the last one shorter. Error (kind model): a value is not finite.
void round_to_blocks(BlockFormat f, float* rows, int64_t n, int64_t k);

// A panel of 32 columns of W: for each 32 along K, 32 scales, then 32 rows (16 pairs of each of two column tiles) of 32 codes.
int64_t coded_panel_bytes(BlockFormat f, int64_t k);
// Codes 16 columns (rows of W, n of them real, k values each) into the first (tile 0) or second (tile 1) half of a zeroed panel.
void encode_columns(BlockFormat f, const float* rows, int64_t n, int64_t k, int64_t tile, uint8_t* panel);
// The bf16 of every code: 16 (4 bits), 64 or 256 entries.
std::vector<uint16_t> code_table(BlockFormat f);

}  // namespace zt
