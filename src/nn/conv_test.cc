#include "nn/conv.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace zt {
namespace {

struct Fixture {
  Threads threads{2};
  Arena arena;
  Exec exec{threads, select_ops(), arena};
  Ctx ctx{exec, {}};
};

std::vector<float> noise(int64_t n, unsigned seed) {
  std::mt19937 g(seed);
  std::normal_distribution<float> d;
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = d(g);
  return v;
}

// Sums of k products of unit normals: float32 rounding of any order stays under k * 2^-24 * (sum of magnitudes ~ k).
void expect_close(float found, double wanted, int64_t k) { EXPECT_NEAR(found, wanted, 1e-6 * static_cast<double>(k) + 1e-6); }

TEST(Conv1d, EqualsTheDoubleLoop) {
  Fixture f;
  struct Case { int64_t in, out, kernel, stride, dilation, rows; };
  for (const Case& c : {Case{1, 5, 7, 1, 1, 40}, Case{3, 1, 7, 1, 1, 33}, Case{16, 16, 3, 1, 3, 50}, Case{4, 4, 11, 1, 5, 90}, Case{8, 16, 10, 5, 1, 62},
                        Case{2, 4, 8, 4, 1, 37}, Case{33, 17, 1, 1, 1, 21}}) {
    const auto w = noise(c.out * c.in * c.kernel, 1), x = noise(c.rows * c.in, 2), bias = noise(c.out, 3);
    const Conv1d conv = make_conv1d(f.exec.ops, w, bias, c.out, c.in, c.kernel, c.stride, c.dilation);
    const int64_t n = conv.rows_out(c.rows);
    ASSERT_EQ(n, (c.rows - (c.kernel - 1) * c.dilation - 1) / c.stride + 1);
    std::vector<float> y(static_cast<size_t>(n * c.out), 0.5f);
    for (bool add : {false, true}) {
      conv1d(f.ctx, {x.data(), c.rows, c.in, c.in}, conv, {y.data(), n, c.out, c.out}, add);
      for (int64_t t = 0; t < n; ++t)
        for (int64_t o = 0; o < c.out; ++o) {
          double sum = bias[static_cast<size_t>(o)];
          for (int64_t j = 0; j < c.kernel; ++j)
            for (int64_t i = 0; i < c.in; ++i)
              sum += static_cast<double>(w[static_cast<size_t>((o * c.in + i) * c.kernel + j)]) * x[static_cast<size_t>((t * c.stride + j * c.dilation) * c.in + i)];
          expect_close(y[static_cast<size_t>(t * c.out + o)], add ? 2 * sum : sum, c.in * c.kernel);
        }
    }
  }
}

TEST(TransposedConv1d, EqualsTheDefinition) {
  Fixture f;
  struct Case { int64_t in, out, kernel, stride, rows; };
  for (const Case& c : {Case{4, 3, 4, 2, 9}, Case{6, 2, 9, 5, 7}, Case{3, 5, 16, 8, 6}, Case{2, 1, 8, 4, 11},
                        Case{2, 3, 3, 3, 5}, Case{2, 2, 7, 3, 8}, Case{5, 4, 1, 1, 6}}) {
    const auto w = noise(c.in * c.out * c.kernel, 4), x = noise(c.rows * c.in, 5), bias = noise(c.out, 6);
    const TransposedConv1d conv = make_transposed_conv1d(f.exec.ops, w, bias, c.in, c.out, c.kernel, c.stride);
    const int64_t zeros = conv.taps - 1, padding = (c.kernel - c.stride) / 2, blocks = c.rows + zeros;
    std::vector<float> padded(static_cast<size_t>((c.rows + 2 * zeros) * c.in), 0.0f), y(static_cast<size_t>(blocks * c.stride * c.out));
    std::copy(x.begin(), x.end(), padded.begin() + zeros * c.in);
    transposed_conv1d(f.ctx, {padded.data(), c.rows + 2 * zeros, c.in, c.in}, conv, {y.data(), blocks * c.stride, c.out, c.out});
    std::vector<double> wanted(static_cast<size_t>(c.rows * c.stride * c.out));
    for (int64_t n = 0; n < c.rows * c.stride; ++n)
      for (int64_t o = 0; o < c.out; ++o) wanted[static_cast<size_t>(n * c.out + o)] = bias[static_cast<size_t>(o)];
    for (int64_t m = 0; m < c.rows; ++m)
      for (int64_t j = 0; j < c.kernel; ++j) {
        const int64_t n = m * c.stride + j - padding;
        if (n < 0 || n >= c.rows * c.stride) continue;
        for (int64_t i = 0; i < c.in; ++i)
          for (int64_t o = 0; o < c.out; ++o)
            wanted[static_cast<size_t>(n * c.out + o)] +=
                static_cast<double>(x[static_cast<size_t>(m * c.in + i)]) * w[static_cast<size_t>((i * c.out + o) * c.kernel + j)];
      }
    for (int64_t n = 0; n < c.rows * c.stride; ++n)
      for (int64_t o = 0; o < c.out; ++o)
        expect_close(y[static_cast<size_t>((n + padding) * c.out + o)], wanted[static_cast<size_t>(n * c.out + o)], c.in * conv.taps);
  }
}

TEST(ReflectPad, MirrorsWithoutTheEdge) {
  Fixture f;
  const std::vector<float> x{1, 2, 3, 4, 5, 6};   // 2 x 3
  std::vector<float> plane(20);
  reflect_pad(f.ctx, {x.data(), 6, 1, 1}, 2, 3, 1, 1, plane.data());
  EXPECT_EQ(plane, (std::vector<float>{5, 4, 5, 6, 5, 2, 1, 2, 3, 2, 5, 4, 5, 6, 5, 2, 1, 2, 3, 2}));
  std::vector<float> corner(12);
  reflect_pad(f.ctx, {x.data(), 6, 1, 1}, 2, 3, 0, 1, corner.data());
  EXPECT_EQ(corner, (std::vector<float>{1, 2, 3, 2, 4, 5, 6, 5, 1, 2, 3, 2}));
}

// Five frames through the ring against a loop over all taps, with zeros before the first frame.
TEST(CausalConv3d, EqualsTheDoubleLoopFrameByFrame) {
  Fixture f;
  struct Case { int64_t in, out, height, width, stride; };
  for (const Case& c : {Case{3, 8, 6, 10, 1}, Case{8, 5, 4, 7, 1}, Case{4, 12, 8, 6, 2}, Case{16, 16, 2, 2, 1}}) {
    const int64_t before = c.stride == 1 ? 1 : 0, ph = c.height + before + 1, pw = c.width + before + 1, oh = c.height / c.stride, ow = c.width / c.stride;
    const auto w = noise(c.out * c.in * 27, 7), bias = noise(c.out, 8);
    const CausalConv3d conv = make_causal_conv3d(f.exec.ops, w, bias, c.out, c.in);
    Arena::Scope scope(f.arena);
    FrameRing ring = make_frame_ring(f.ctx, ph, pw, c.in, 5);
    std::vector<std::vector<float>> planes;
    for (int64_t t = 0; t < 5; ++t) {
      const auto x = noise(c.height * c.width * c.in, 100 + static_cast<unsigned>(t));
      auto& plane = planes.emplace_back(static_cast<size_t>(ph * pw * c.in));
      reflect_pad(f.ctx, {x.data(), c.height * c.width, c.in, c.in}, c.height, c.width, before, 1, plane.data());
      reflect_pad(f.ctx, {x.data(), c.height * c.width, c.in, c.in}, c.height, c.width, before, 1, ring.push());
      std::vector<float> y(static_cast<size_t>(oh * ow * c.out));
      causal_conv3d(f.ctx, ring, conv, oh, ow, c.stride, {y.data(), oh * ow, c.out, c.out});
      for (int64_t p = 0; p < oh * ow; ++p)
        for (int64_t o = 0; o < c.out; ++o) {
          double sum = bias[static_cast<size_t>(o)];
          for (int64_t tap = 0; tap < 27; ++tap) {
            const int64_t frame = t - 2 + tap / 9, row = p / ow * c.stride + tap / 3 % 3, col = p % ow * c.stride + tap % 3;
            if (frame < 0) continue;
            for (int64_t i = 0; i < c.in; ++i)
              sum += static_cast<double>(w[static_cast<size_t>((o * c.in + i) * 27 + tap)]) *
                     planes[static_cast<size_t>(frame)][static_cast<size_t>((row * pw + col) * c.in + i)];
          }
          expect_close(y[static_cast<size_t>(p * c.out + o)], sum, 27 * c.in);
        }
    }
  }
}

}  // namespace
}  // namespace zt
