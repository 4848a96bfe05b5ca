#include "models/minimax_h3/tiling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace zt::h3 {
namespace {

TEST(SplitTiles, ReleasedRule) {
  using List = std::vector<int64_t>;
  EXPECT_EQ(split_tiles(768, 256, 64, 16).overlap, (List{96, 80, 80}));
  EXPECT_EQ(split_tiles(1344, 256, 64, 16).overlap, (List{80, 80, 80, 80, 64, 64}));
  EXPECT_EQ(split_tiles(288, 256, 64, 16).overlap, (List{224}));
  EXPECT_EQ(split_tiles(288, 256, 64, 16).start, (List{0, 32}));
  EXPECT_EQ(split_tiles(256, 256, 64, 16).count(), 1);
  EXPECT_EQ(split_tiles(32, 256, 64, 16).length, (List{32}));
  EXPECT_EQ(split_tiles(448, 256, 64, 16).count(), 2);   // 512 - 64
  EXPECT_EQ(split_tiles(464, 256, 64, 16).count(), 3);
}

TEST(SplitTiles, CoversEveryLength) {
  for (int64_t length = 16; length <= 4096; length += 16) {
    const TileAxis a = split_tiles(length, 256, 64, 16);
    ASSERT_EQ(a.start.back() + a.length.back(), length);
    for (size_t i = 0; i < a.overlap.size(); ++i) {
      ASSERT_GE(a.overlap[i], 64);
      ASSERT_EQ(a.start[i] + a.length[i] - a.overlap[i], a.start[i + 1]);
      ASSERT_EQ(a.start[i + 1] % 16, 0);
    }
    if (length > 256) {
      ASSERT_LT(256 * (a.count() - 1) - 64 * (a.count() - 2), length) << "a tile too many";
    }
  }
}

// What the reference's _stitch_tiles gives for pixel (y, x) of the canvas, from the raw tiles.
float reference_pixel(const TileAxis& ay, const TileAxis& ax, const std::vector<std::vector<std::vector<float>>>& raw, int64_t y, int64_t x) {
  auto owner = [](const TileAxis& a, int64_t at) {
    int64_t i = 0;
    while (i + 1 < a.count() && at >= a.start[static_cast<size_t>(i + 1)]) ++i;
    return i;
  };
  const int64_t i = owner(ay, y), j = owner(ax, x);
  auto value = [&](int64_t ti, int64_t tj) {
    const auto si = static_cast<size_t>(ti), sj = static_cast<size_t>(tj);
    return raw[si][sj][static_cast<size_t>((y - ay.start[si]) * ax.length[sj] + x - ax.start[sj])];
  };
  float v = value(i, j);
  const int64_t r = y - ay.start[static_cast<size_t>(i)], c = x - ax.start[static_cast<size_t>(j)];
  if (i > 0 && r < ay.overlap[static_cast<size_t>(i - 1)]) {
    const float b = static_cast<float>(r) / static_cast<float>(ay.overlap[static_cast<size_t>(i - 1)]);
    v = value(i - 1, j) * (1 - b) + v * b;
  }
  if (j > 0 && c < ax.overlap[static_cast<size_t>(j - 1)]) {
    const float b = static_cast<float>(c) / static_cast<float>(ax.overlap[static_cast<size_t>(j - 1)]);
    v = value(i, j - 1) * (1 - b) + v * b;   // the raw left tile, also where this one was blended with the tile above
  }
  return v;
}

TEST(TileStitcher, BlendsWithRawNeighbours) {
  Threads threads(2);
  Arena arena;
  Exec exec{threads, select_ops(), arena};
  std::mt19937 g(5);
  std::normal_distribution<float> normal;
  for (auto [height, width] : {std::pair<int64_t, int64_t>{20, 44}, {38, 16}, {16, 16}, {26, 64}}) {
    const TileAxis y = split_tiles(height, 16, 4, 2), x = split_tiles(width, 16, 4, 2);
    for (int64_t inner : {1, 3}) {
      std::vector<float> canvas(static_cast<size_t>(2 * height * width * inner), -1.0f);
      TileStitcher stitcher(y, x, 2, inner, canvas.data());
      std::vector<std::vector<std::vector<float>>> raw(static_cast<size_t>(y.count()));   // of outer 1, inner 0
      for (int64_t i = 0; i < y.count(); ++i)
        for (int64_t j = 0; j < x.count(); ++j) {
          const int64_t pixels = y.length[static_cast<size_t>(i)] * x.length[static_cast<size_t>(j)];
          std::vector<float> tile(static_cast<size_t>(2 * pixels * inner));
          for (float& v : tile) v = normal(g);
          auto& kept = raw[static_cast<size_t>(i)].emplace_back();
          for (int64_t p = 0; p < pixels; ++p) kept.push_back(tile[static_cast<size_t>((pixels + p) * inner)]);
          stitcher.place(exec, i, j, tile.data());
        }
      for (int64_t r = 0; r < height; ++r)
        for (int64_t c = 0; c < width; ++c)
          ASSERT_FLOAT_EQ(canvas[static_cast<size_t>(((height + r) * width + c) * inner)], reference_pixel(y, x, raw, r, c)) << r << ' ' << c;
    }
  }
}

}  // namespace
}  // namespace zt::h3
