#include "models/minimax_h3/tiling.h"

#include <algorithm>

namespace zt::h3 {

TileAxis split_tiles(int64_t length, int64_t tile, int64_t min_overlap, int64_t step) {
  if (tile >= length) return {{0}, {length}, {}};
  int64_t n = (length + tile - 1) / tile;
  while (tile * n - min_overlap * (n - 1) - length < 0) ++n;
  TileAxis axis;
  axis.overlap.assign(static_cast<size_t>(n - 1), min_overlap);
  const int64_t slack = tile * n - min_overlap * (n - 1) - length;
  for (int64_t i = 0; i < slack / step; ++i) axis.overlap[static_cast<size_t>(i % (n - 1))] += step;
  axis.length.assign(static_cast<size_t>(n), tile);
  axis.start = {0};
  for (int64_t overlap : axis.overlap) axis.start.push_back(axis.start.back() + tile - overlap);
  return axis;
}

TileAxis scaled_down(const TileAxis& axis, int64_t ratio) {
  TileAxis small = axis;
  for (auto* list : {&small.start, &small.length, &small.overlap})
    for (int64_t& v : *list) v /= ratio;
  return small;
}

TileStitcher::TileStitcher(const TileAxis& y, const TileAxis& x, int64_t outer, int64_t inner, float* canvas)
    : y_(y), x_(x), outer_(outer), inner_(inner), height_(y.start.back() + y.length.back()), width_(x.start.back() + x.length.back()),
      canvas_(canvas), above_(static_cast<size_t>(x.count())) {}

void TileStitcher::place(const Exec& exec, int64_t i, int64_t j, float* tile) {
  const auto si = static_cast<size_t>(i), sj = static_cast<size_t>(j);
  const int64_t h = y_.length[si], w = x_.length[sj] * inner_;   // w, left, right: floats of a row
  const int64_t top = i > 0 ? std::min(y_.overlap[si - 1], h) : 0, bottom = i + 1 < y_.count() ? y_.overlap[si] : 0;
  const int64_t left = j > 0 ? std::min(x_.overlap[sj - 1] * inner_, w) : 0, right = j + 1 < x_.count() ? x_.overlap[sj] * inner_ : 0;
  const float* above = above_[sj].data();
  std::vector<float> below(static_cast<size_t>(outer_ * bottom * w)), side(static_cast<size_t>(outer_ * h * right));
  const int64_t x0 = x_.start[sj] * inner_, y0 = y_.start[si];

  exec.threads.parallel_for(outer_ * h, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t o = n / h, r = n % h;
      float* row = tile + n * w;
      if (r >= h - bottom) std::copy_n(row, w, below.data() + (o * bottom + r - (h - bottom)) * w);
      std::copy_n(row + w - right, right, side.data() + n * right);
      if (r < top) {
        const float b = static_cast<float>(r) / static_cast<float>(top), a = 1 - b;
        const float* up = above + (o * top + r) * w;
        for (int64_t k = 0; k < w; ++k) row[k] = up[k] * a + row[k] * b;
      }
      const float* beside = left_.data() + n * left;
      for (int64_t k = 0; k < left; ++k) {
        const float b = static_cast<float>(k / inner_) / static_cast<float>(left / inner_), a = 1 - b;
        row[k] = beside[k] * a + row[k] * b;
      }
      if (r < h - bottom) std::copy_n(row, w - right, canvas_ + ((o * height_ + y0 + r) * width_) * inner_ + x0);
    }
  });
  above_[sj] = std::move(below);
  left_ = std::move(side);
}

}  // namespace zt::h3
