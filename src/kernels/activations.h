#pragma once
// What flows between the operations of a block. A layer that multiplies in plain bf16 reads its input as bf16 tiles, so the operation
// before it writes them at once: no float32 copy goes through memory and nothing is converted twice.
#include <cstdint>

#include "tensor/tensor.h"

namespace zt {

constexpr int64_t kTileRows = 16, kTileCols = 32, kTileValues = kTileRows * kTileCols;

// [rows, cols]: float32 at data + row * stride, or, where `tiles` is not null, bf16: value (r, c) is at
// tiles[((r / 16) * (cols / 32) + c / 32) * 512 + r % 16 * 32 + c % 32]. Then cols is a multiple of 32, and memory is there for rows up to
// the next multiple of 32, whose contents do not matter.
struct Activations {
  float* data = nullptr;
  uint16_t* tiles = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  Activations() = default;
  Activations(const Mat& m) : data(m.data), rows(m.rows), cols(m.cols), stride(m.stride) {}
  Activations(uint16_t* tiles, int64_t rows, int64_t cols) : tiles(tiles), rows(rows), cols(cols) {}
};

struct ConstActivations {
  const float* data = nullptr;
  const uint16_t* tiles = nullptr;
  int64_t rows = 0, cols = 0, stride = 0;
  ConstActivations(const Mat& m) : data(m.data), rows(m.rows), cols(m.cols), stride(m.stride) {}
  ConstActivations(const ConstMat& m) : data(m.data), rows(m.rows), cols(m.cols), stride(m.stride) {}
  ConstActivations(const Activations& a) : data(a.data), tiles(a.tiles), rows(a.rows), cols(a.cols), stride(a.stride) {}
};

// Values that tiles of [rows, cols] need.
constexpr int64_t tile_values(int64_t rows, int64_t cols) { return (rows + 31) / 32 * 32 * cols; }

}  // namespace zt
