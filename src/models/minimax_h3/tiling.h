#pragma once
// Spatial tiles of the video VAE. The released frames are the blended-tile ones, so the layout and the blend below are part of
// the model. Source: diffusers autoencoder_kl_minimax_h3.py, _split_tiles, _blend, _stitch_tiles.
#include <cstdint>
#include <vector>

#include "kernels/exec.h"

namespace zt::h3 {

// Tiles over one axis: tile i covers [start[i], start[i] + length[i]) and shares overlap[i] with tile i + 1.
struct TileAxis {
  std::vector<int64_t> start, length, overlap;
  int64_t count() const { return static_cast<int64_t>(start.size()); }
};

// The fewest tiles of `tile` that cover `length` with overlaps of at least `min_overlap`; the slack goes round robin over the
// overlaps in steps of `step`. All in pixels.
TileAxis split_tiles(int64_t length, int64_t tile, int64_t min_overlap, int64_t step);
// The same tiles in units of `ratio` pixels.
TileAxis scaled_down(const TileAxis& axis, int64_t ratio);

// Puts tiles together, given row by row and left to right. Each tile is blended with the raw tile above it, then with the raw tile
// to its left; its right and bottom overlaps are left to its neighbours. Holds the raw bottom rows of one row of tiles.
class TileStitcher {
 public:
  // canvas [outer, height, width, inner]: the axes' full lengths.
  TileStitcher(const TileAxis& y, const TileAxis& x, int64_t outer, int64_t inner, float* canvas);
  // tile [outer, y.length[i], x.length[j], inner]; its values are overwritten.
  void place(const Exec& exec, int64_t i, int64_t j, float* tile);

 private:
  const TileAxis &y_, &x_;
  int64_t outer_, inner_, height_, width_;
  float* canvas_;
  std::vector<std::vector<float>> above_;   // per column of tiles: raw [outer, overlap, length, inner]
  std::vector<float> left_;                 // raw [outer, length, overlap, inner] of the tile before
};

}  // namespace zt::h3
