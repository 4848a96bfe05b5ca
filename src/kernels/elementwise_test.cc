// Row operations of every table against the definitions in double. Bounds: u = 2^-24 times the number of roundings on the way, times
// the magnitude of what is rounded.
#include "kernels/elementwise.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "kernels/test_support.h"

namespace zt {
namespace {

using test::kEps32;
using Values = std::vector<float>;

constexpr int64_t kShapes[][2] = {{1, 1}, {3, 5}, {7, 16}, {2, 24}, {33, 31}, {5, 100}, {40, 257}, {70, 512}};

// x with rows `gap` floats apart beyond its columns, ending with the last column.
struct Rows {
  Values data;
  int64_t rows, cols, stride;
  Rows(int64_t rows, int64_t cols, uint64_t seed, float scale = 1, int64_t gap = 3)
      : data(test::normal((rows - 1) * (cols + gap) + cols, seed, scale)), rows(rows), cols(cols), stride(cols + gap) {}
  float& at(int64_t i, int64_t j) { return data[static_cast<size_t>(i * stride + j)]; }
  float at(int64_t i, int64_t j) const { return data[static_cast<size_t>(i * stride + j)]; }
  Mat mat() { return {data.data(), rows, cols, stride}; }
  ConstMat view() const { return {data.data(), rows, cols, stride}; }
};

struct Want { double value, bound; };

// op(exec, y) fills y, which starts as normal values of seed 9; want(i, j, y0) says what must come out.
void check(int64_t rows, int64_t cols, const std::function<void(const Exec&, Rows&)>& op, const std::function<Want(int64_t, int64_t, double)>& want) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
  std::map<std::string, Values> first;
  const Rows start(rows, cols, 9);
  test::on_every_table([&](const Exec& exec) {
    Rows y = start;
    op(exec, y);
    auto [it, fresh] = first.emplace(ops_name(exec.ops), y.data);
    ASSERT_EQ(0, std::memcmp(it->second.data(), y.data.data(), y.data.size() * sizeof(float))) << "bits depend on the number of threads";
    if (!fresh) return;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < std::min(y.stride, i + 1 < rows ? y.stride : cols); ++j) {
        if (j >= cols) {
          ASSERT_EQ(y.at(i, j), start.at(i, j)) << "wrote between rows";
          continue;
        }
        const Want w = want(i, j, start.at(i, j));
        ASSERT_NEAR(y.at(i, j), w.value, w.bound) << "row " << i << " column " << j;
      }
    }
  });
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(Elementwise, Norms) {
  for (auto [rows, cols] : kShapes) {
    const Rows x(rows, cols, 1, 3);
    const Values w = test::normal(cols, 2), b = test::normal(cols, 3), table = test::normal(4 * cols, 4);
    std::vector<int32_t> row_of;
    for (int64_t i = 0; i < rows; ++i) row_of.push_back(static_cast<int32_t>(i % 2));
    const double eps = 1e-5, u = kEps32 * static_cast<double>(cols + 16);
    std::vector<std::array<double, 3>> all;
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0, sq = 0, var = 0;
      for (int64_t j = 0; j < cols; ++j) sum += x.at(i, j), sq += double{x.at(i, j)} * x.at(i, j);
      const double n = static_cast<double>(cols), mean = sum / n;
      for (int64_t j = 0; j < cols; ++j) var += (x.at(i, j) - mean) * (x.at(i, j) - mean);
      all.push_back({mean, 1 / std::sqrt(var / n + eps), 1 / std::sqrt(sq / n + eps)});
    }
    auto moments = [&](int64_t i) { return all[static_cast<size_t>(i)]; };
    for (const float* weight : {static_cast<const float*>(nullptr), w.data()}) {
      auto weight_of = [&](int64_t j) { return weight ? weight[j] : 1.0; };
      check(rows, cols, [&](const Exec& e, Rows& y) { rms_norm(e, x.view(), weight, 1e-5f, y.mat()); }, [&](int64_t i, int64_t j, double) {
        const double v = x.at(i, j) * moments(i)[2] * weight_of(j);
        return Want{v, u * std::abs(v)};
      });
      check(rows, cols, [&](const Exec& e, Rows& y) { layer_norm(e, x.view(), weight, b.data(), 1e-5f, y.mat()); }, [&](int64_t i, int64_t j, double) {
        const auto [mean, r, _] = moments(i);
        double largest = 0;
        for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, std::abs(double{x.at(i, c)}));
        return Want{(x.at(i, j) - mean) * r * weight_of(j) + b[static_cast<size_t>(j)],
                    u * (4 * largest * r * std::abs(weight_of(j)) + std::abs(b[static_cast<size_t>(j)]))};
      });
      check(rows, cols,
            [&](const Exec& e, Rows& y) {
              rms_norm_modulate(e, x.view(), weight, 1e-5f, table.data(), table.data() + cols, 2 * cols, row_of.data(), y.mat());
            },
            [&](int64_t i, int64_t j, double) {
              const size_t at = static_cast<size_t>(2 * cols * (i % 2) + j);
              const double v = x.at(i, j) * moments(i)[2] * weight_of(j), scale = table[at], shift = table[at + static_cast<size_t>(cols)];
              return Want{v * (1 + scale) + shift, u * (std::abs(v) * (1 + std::abs(scale)) + std::abs(shift))};
            });
    }
  }
}

TEST(Elementwise, Maps) {
  for (auto [rows, cols] : kShapes) {
    const Rows x(rows, cols, 1, 4), wide(rows, 2 * cols, 2, 4);
    const Values s = test::normal(cols, 3);
    // x sigmoid(w(x)): `roundings` of the exponential's argument w turn into as many u |w| of relative error.
    auto map = [&](auto op, int roundings, auto argument) {
      check(rows, cols, [&](const Exec& e, Rows& y) { op(e, x.view(), y.mat()); }, [&](int64_t i, int64_t j, double) {
        const double w = argument(double{x.at(i, j)}), v = x.at(i, j) * sigmoid(w);
        return Want{v, (roundings * std::abs(w) + 16) * kEps32 * std::abs(v) + 1e-36};
      });
    };
    map(silu, 0, [](double v) { return v; });
    map(gelu_tanh, 6, [](double v) { return 2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v); });
    for (bool value_first : {false, true}) {
      check(rows, cols, [&](const Exec& e, Rows& y) { swiglu(e, wide.view(), value_first, y.mat()); }, [&](int64_t i, int64_t j, double) {
        const double a = wide.at(i, j), b = wide.at(i, j + cols), v = value_first ? a * b * sigmoid(b) : b * a * sigmoid(a);
        return Want{v, 48 * kEps32 * std::abs(v)};
      });
    }
    for (const float* scale : {static_cast<const float*>(nullptr), s.data()}) {
      check(rows, cols, [&](const Exec& e, Rows& y) { add_scaled(e, x.view(), scale, y.mat()); }, [&](int64_t i, int64_t j, double y0) {
        const double v = x.at(i, j) * (scale ? scale[j] : 1.0);
        return Want{y0 + v, 2 * kEps32 * (std::abs(v) + std::abs(y0 + v))};
      });
    }
  }
}

// Tails far from the origin, where a sum of unlike parts would lose all digits.
TEST(Elementwise, ActivationsKeepTheirTails) {
  Values x;
  for (double v = -13; v < 13; v += 0.0137) x.push_back(static_cast<float>(v));
  const int64_t n = static_cast<int64_t>(x.size());
  test::on_every_table([&](const Exec& exec) {
    Values y(x.size());
    gelu_erf(exec, {x.data(), 1, n, n}, {y.data(), 1, n, n});
    for (size_t i = 0; i < x.size(); ++i) {
      // exp(-z^2) turns a rounding of z^2 = x^2 / 2 into a relative error of its size.
      const double v = x[i], want = 0.5 * v * std::erfc(-v / std::sqrt(2.0)), bound = (2 * v * v + 16) * kEps32 * std::abs(want);
      ASSERT_NEAR(y[i], want, bound) << x[i];
    }
    const Values special = {INFINITY, 200, -200, 0, NAN};
    Values out(special.size());
    silu(exec, {special.data(), 1, 5, 5}, {out.data(), 1, 5, 5});
    EXPECT_EQ(out[0], INFINITY);
    EXPECT_EQ(out[1], 200);
    EXPECT_EQ(out[2], 0);
    EXPECT_EQ(out[3], 0);
    EXPECT_TRUE(std::isnan(out[4]));
  }, {1});
}

TEST(Elementwise, HeadNormRope) {
  for (int head_dim : {16, 20, 64, 72, 128}) {
    for (int64_t half : {int64_t{0}, int64_t{head_dim / 2}, int64_t{head_dim * 3 / 8}}) {
      for (float eps : {0.0f, 1e-6f}) {
        const int heads = 3;
        const int64_t rows = 9, cols = heads * head_dim;
        const Values w = test::normal(head_dim, 2), angle = test::normal(rows * half, 3, 2);
        Values c, s;
        for (float a : angle) c.push_back(std::cos(a)), s.push_back(std::sin(a));
        const Rows x(rows, cols, 9);   // what check() starts y with
        auto normed = [&](int64_t i, int64_t h, int64_t j) {
          double sq = 0;
          for (int64_t k = 0; k < head_dim; ++k) sq += double{x.at(i, h * head_dim + k)} * x.at(i, h * head_dim + k);
          return x.at(i, h * head_dim + j) * (eps > 0 ? w[static_cast<size_t>(j)] / std::sqrt(sq / head_dim + eps) : 1.0);
        };
        check(rows, cols,
              [&](const Exec& e, Rows& y) {
                head_norm_rope(e, y.data.data(), rows, y.stride, heads, head_dim, eps, w.data(), half ? c.data() : nullptr, s.data(), half);
              },
              [&](int64_t i, int64_t j, double) {
                const int64_t h = j / head_dim, k = j % head_dim;
                double v = normed(i, h, k), size = std::abs(v);
                if (k < 2 * half) {
                  const int64_t at = i * half + k % half;
                  const double other = normed(i, h, k < half ? k + half : k - half);
                  const double co = c[static_cast<size_t>(at)], si = s[static_cast<size_t>(at)];
                  v = k < half ? v * co - other * si : v * co + other * si, size += std::abs(other);
                }
                return Want{v, (head_dim + 20) * kEps32 * size};
              });
      }
    }
  }
}

// u of each operation on values of magnitude `size`; alpha x is itself rounded, which moves sin^2 by up to |alpha x| u.
TEST(Elementwise, SnakeUpToLargeArguments) {
  for (float scale : {1.0f, 100.0f, 2000.0f}) {
    for (auto [rows, cols] : kShapes) {
      const Rows x(rows, cols, 1, scale);
      Values alpha = test::normal(cols, 2), beta = test::normal(cols, 3);
      for (float& v : alpha) v = std::exp(0.3f * v);
      for (float& v : beta) v = std::exp(0.3f * v);
      check(rows, cols, [&](const Exec& e, Rows& y) { snake(e, x.view(), alpha.data(), beta.data(), y.mat()); }, [&](int64_t i, int64_t j, double) {
        const double a = alpha[static_cast<size_t>(j)], b = beta[static_cast<size_t>(j)], v = x.at(i, j), s = std::sin(a * v);
        const double extra = s * s / (b + 1e-9);
        return Want{v + extra, kEps32 * (2 * std::abs(v + extra) + 16 * extra + 2 * std::abs(s * a * v) / b + std::pow(a * v * kEps32, 2) / b)};
      });
    }
  }
}

Values window() {   // any 12 taps; not symmetric, so that a reversed order shows
  Values f;
  for (int i = 0; i < 12; ++i) f.push_back(static_cast<float>(0.1 + 0.05 * i - 0.006 * i * i));
  return f;
}

// The three steps as PyTorch does them, on one channel, in double.
std::vector<double> anti_aliased(const std::vector<double>& x, double alpha, double beta, const Values& up, const Values& down) {
  const int64_t T = static_cast<int64_t>(x.size());
  std::vector<double> wide(static_cast<size_t>((T + 10 - 1) * 2 + 12), 0.0), y;
  for (int64_t m = 0; m < T + 10; ++m) {
    for (int64_t k = 0; k < 12; ++k) {
      wide[static_cast<size_t>(2 * m + k)] += 2 * up[static_cast<size_t>(k)] * x[static_cast<size_t>(std::clamp<int64_t>(m - 5, 0, T - 1))];
    }
  }
  std::vector<double> s(wide.begin() + 15, wide.end() - 15);
  for (double& v : s) v += std::pow(std::sin(alpha * v), 2) / (beta + 1e-9);
  for (int64_t t = 0; t < T; ++t) {
    double sum = 0;
    for (int64_t k = 0; k < 12; ++k) sum += down[static_cast<size_t>(k)] * s[static_cast<size_t>(std::clamp<int64_t>(2 * t + k - 5, 0, 2 * T - 1))];
    y.push_back(sum);
  }
  return y;
}

TEST(Elementwise, SnakeAntiAliased) {
  const Values up = window(), down(up.rbegin(), up.rend());
  for (auto [rows, cols] : {std::array<int64_t, 2>{1, 8}, {2, 12}, {5, 16}, {40, 1}, {1100, 8}, {700, 12}, {533, 16}, {300, 40}, {260, 64}, {150, 100}, {9, 512}}) {
    const Rows x(rows, cols, 1);
    Values alpha = test::normal(cols, 2), beta = test::normal(cols, 3);
    for (float& v : alpha) v = std::exp(0.3f * v);
    for (float& v : beta) v = std::exp(0.3f * v);
    std::vector<std::vector<double>> want;
    for (int64_t c = 0; c < cols; ++c) {
      std::vector<double> column;
      for (int64_t t = 0; t < rows; ++t) column.push_back(x.at(t, c));
      want.push_back(anti_aliased(column, alpha[static_cast<size_t>(c)], beta[static_cast<size_t>(c)], up, down));
    }
    check(rows, cols,
          [&](const Exec& e, Rows& y) { snake_anti_aliased(e, x.view(), alpha.data(), beta.data(), up.data(), down.data(), y.mat()); },
          [&](int64_t t, int64_t c, double) {
            // |x| <= 5, so a sample is at most 2 sum|f| 5 =: s, off by 8 u s; the snake turns that into (1 + 2 alpha / beta) as much.
            double taps = 0;
            for (float f : up) taps += std::abs(f);
            const double s = 10 * taps, a = alpha[static_cast<size_t>(c)], b = beta[static_cast<size_t>(c)];
            return Want{want[static_cast<size_t>(c)][static_cast<size_t>(t)], kEps32 * taps * ((1 + 2 * a / b) * 10 * s + 14 * (s + 1 / b))};
          });
    // Dense rows take another way out.
    test::on_every_table([&](const Exec& e) {
      Values dense, out(static_cast<size_t>(rows * cols));
      for (int64_t t = 0; t < rows; ++t) {
        for (int64_t c = 0; c < cols; ++c) dense.push_back(x.at(t, c));
      }
      Rows y(rows, cols, 9);
      snake_anti_aliased(e, {dense.data(), rows, cols, cols}, alpha.data(), beta.data(), up.data(), down.data(), {out.data(), rows, cols, cols});
      snake_anti_aliased(e, x.view(), alpha.data(), beta.data(), up.data(), down.data(), y.mat());
      for (int64_t t = 0; t < rows; ++t) {
        for (int64_t c = 0; c < cols; ++c) ASSERT_EQ(out[static_cast<size_t>(t * cols + c)], y.at(t, c));
      }
      // A part of the rows alone.
      for (int64_t skip : {int64_t{0}, int64_t{1}, rows / 2, rows - 1}) {
        const int64_t n = std::min<int64_t>(rows - skip, 7);
        Values part(static_cast<size_t>(n * cols));
        snake_anti_aliased(e, {dense.data(), rows, cols, cols}, alpha.data(), beta.data(), up.data(), down.data(), {part.data(), n, cols, cols}, skip);
        for (int64_t i = 0; i < n * cols; ++i) ASSERT_EQ(part[static_cast<size_t>(i)], out[static_cast<size_t>(skip * cols + i)]);
      }
    }, {2});
  }
}

TEST(Elementwise, GroupNorm) {
  for (auto [rows, cols, groups] : {std::array<int64_t, 3>{1, 4, 2}, {600, 32, 8}, {300, 96, 32}, {1000, 6, 1}}) {
    Rows x(rows, cols, 1, 2);
    for (float& v : x.data) v += 30;   // a large mean: a one-pass variance in float32 would lose it
    const Values w = test::normal(cols, 2), b = test::normal(cols, 3);
    const int64_t per = cols / groups;
    std::vector<std::array<double, 2>> stats;
    for (int64_t g = 0; g < groups; ++g) {
      double mean = 0, var = 0;
      const double n = static_cast<double>(rows * per);
      for (int64_t i = 0; i < rows; ++i) for (int64_t c = 0; c < per; ++c) mean += x.at(i, g * per + c) / n;
      for (int64_t i = 0; i < rows; ++i) for (int64_t c = 0; c < per; ++c) var += std::pow(x.at(i, g * per + c) - mean, 2) / n;
      stats.push_back({mean, 1 / std::sqrt(var + 1e-6)});
    }
    for (bool with_silu : {false, true}) {
      check(rows, cols,
            [&](const Exec& e, Rows& y) { group_norm(e, x.view(), static_cast<int>(groups), w.data(), b.data(), 1e-6f, with_silu, y.mat()); },
            [&](int64_t i, int64_t j, double) {
              const auto [mean, r] = stats[static_cast<size_t>(j / per)];
              double v = (x.at(i, j) - mean) * r * w[static_cast<size_t>(j)] + b[static_cast<size_t>(j)];
              // y = x a + b: both parts have the size of mean r w. A chunk's mean is a sum of 256, hence its share of u.
              double bound = (256 + 8) * kEps32 * (std::abs(mean * r * w[static_cast<size_t>(j)]) + 8);
              if (with_silu) v *= sigmoid(v), bound = 1.2 * bound + 8 * kEps32 * std::abs(v);
              return Want{v, bound};
            });
    }
  }
}

TEST(Elementwise, AllFinite) {
  test::on_every_table([&](const Exec& e) {
    for (auto [rows, cols] : kShapes) {
      Rows x(rows, cols, 1, 1e38f / 8);   // a sum of squares or magnitudes would overflow
      for (float& v : x.data) v = std::isfinite(v) ? v : 1;
      EXPECT_TRUE(all_finite(e, x.view()));
      for (float bad : {NAN, INFINITY, -INFINITY}) {
        const float old = x.at(rows - 1, cols / 2);
        x.at(rows - 1, cols / 2) = bad;
        EXPECT_FALSE(all_finite(e, x.view()));
        x.at(rows - 1, cols / 2) = old;
      }
    }
  }, {2});
}

TEST(Elementwise, PlanesToRgb) {
  const float scale[3] = {0.229f, 1, 0.3f}, shift[3] = {0.485f, 0, -0.1f};
  for (int64_t plane : {1, 7, 8, 9, 16, 31, 4099}) {
    const int64_t frames = 3;
    auto x = test::normal(frames * 3 * plane, 5, 2);
    x[0] = 0.5f / 255, x[static_cast<size_t>(plane)] = 1.5f / 255;   // ties, where scale is 1
    for (bool shown : {true, false}) {
      std::vector<uint8_t> want(x.size());
      for (int64_t i = 0; i < frames * 3 * plane; ++i) {
        const int64_t c = i / plane % 3;
        const float s = shown ? scale[c] : 1, t = shown ? shift[c] : 0, v = std::clamp(x[static_cast<size_t>(i)] * s + t, 0.0f, 1.0f);
        want[static_cast<size_t>((i / plane / 3 * plane + i % plane) * 3 + c)] = static_cast<uint8_t>(std::nearbyint(v * 255.0f));
      }
      test::on_every_table([&](const Exec& e) {
        std::vector<uint8_t> rgb(x.size() + 1, 77);
        EXPECT_TRUE(planes_to_rgb(e, x.data(), frames, plane, shown ? scale : nullptr, shown ? shift : nullptr, rgb.data()));
        EXPECT_EQ(rgb.back(), 77) << "wrote past the end";
        rgb.pop_back();
        EXPECT_EQ(rgb, want);
        for (float bad : {NAN, INFINITY, -INFINITY}) {
          auto y = x;
          y[y.size() - 1 - static_cast<size_t>(plane / 2)] = bad;
          EXPECT_FALSE(planes_to_rgb(e, y.data(), frames, plane, nullptr, nullptr, rgb.data()));
        }
      });
    }
  }
}

TEST(Elementwise, RefusesOtherShapes) {
  Threads threads(1);
  Arena scratch;
  const Exec exec{threads, ops_by_name("ref"), scratch};
  Rows x(2, 6, 1), y(2, 5, 2);
  EXPECT_THROW(silu(exec, x.view(), y.mat()), Error);
  EXPECT_THROW(swiglu(exec, x.view(), true, x.mat()), Error);
  EXPECT_THROW(group_norm(exec, x.view(), 4, nullptr, nullptr, 1e-6f, false, x.mat()), Error);
}

}  // namespace
}  // namespace zt
