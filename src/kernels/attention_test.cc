// Attention of every table against sums in double. With s = scale q.k, an error e in s changes a weight by a factor exp(e), and the
// output by at most 2 e max|v|; e is bounded by (d + 2) u |scale| sum |q||k|, the exponential adds a few u, the sum over keys n u.
#include "kernels/attention.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "kernels/test_support.h"

namespace zt {
namespace {

struct Case {
  int64_t q_rows, kv_rows;
  int heads, kv_heads, d;
  bool causal = false;
  int gap = 0;          // floats between rows beyond the heads
  float size = 1;       // of q: 8 makes the softmax sharp
};

void sweep(const Case& t, Compute compute) {
  SCOPED_TRACE(std::to_string(t.q_rows) + "x" + std::to_string(t.kv_rows) + " heads " + std::to_string(t.heads) + "/" +
               std::to_string(t.kv_heads) + " of " + std::to_string(t.d) + (t.causal ? " causal" : ""));
  const int64_t qs = t.heads * t.d + t.gap, ks = t.kv_heads * t.d + t.gap;
  // The last row ends where its heads do: reading on is an error that the address sanitizer sees.
  const auto q = test::normal(t.q_rows * qs - t.gap, 1, t.size), k = test::normal(t.kv_rows * ks - t.gap, 2), v = test::normal(t.kv_rows * ks - t.gap, 3);
  AttentionArgs a;
  a.q = q.data(), a.k = k.data(), a.v = v.data();
  a.q_rows = t.q_rows, a.kv_rows = t.kv_rows, a.q_stride = qs, a.k_stride = a.v_stride = ks, a.o_stride = qs;
  a.heads = t.heads, a.kv_heads = t.kv_heads, a.head_dim = t.d, a.causal = t.causal, a.compute = compute;
  a.scale = 1 / std::sqrt(static_cast<float>(t.d));

  std::vector<double> want(q.size()), bound(q.size());
  const double u = test::kEps32, b = compute == Compute::bf16 ? 0x1.02p-7 : 0;
  for (int h = 0; h < t.heads; ++h) {
    const int g = h / (t.heads / t.kv_heads);
    for (int64_t i = 0; i < t.q_rows; ++i) {
      const int64_t n = t.causal ? std::clamp<int64_t>(i + 1 + t.kv_rows - t.q_rows, 0, t.kv_rows) : t.kv_rows;
      std::vector<double> s(static_cast<size_t>(n));
      double top = -1e300, sum = 0, error = 0, largest = 0, spread = 0;
      for (int64_t j = 0; j < n; ++j) {
        double x = 0, size = 0;
        for (int c = 0; c < t.d; ++c) {
          const double p = double{q[static_cast<size_t>(i * qs + h * t.d + c)]} * k[static_cast<size_t>(j * ks + g * t.d + c)];
          x += p, size += std::abs(p);
        }
        s[static_cast<size_t>(j)] = x * a.scale;
        top = std::max(top, x * a.scale), spread = std::max(spread, std::abs(x * a.scale));
        error = std::max(error, ((t.d + 2) * u + b) * size * a.scale);
      }
      for (double& x : s) sum += x = std::exp(x - top);
      error += (2 * spread + 6 + static_cast<double>(n) / 4) * u + (compute == Compute::bf16 ? 0x1p-7 : 0);
      for (int c = 0; c < t.d; ++c) {
        double o = 0;
        for (int64_t j = 0; j < n; ++j) {
          const double x = v[static_cast<size_t>(j * ks + g * t.d + c)];
          o += s[static_cast<size_t>(j)] / sum * x, largest = std::max(largest, std::abs(x));
        }
        want[static_cast<size_t>(i * qs + h * t.d + c)] = o;
      }
      for (int c = 0; c < t.d; ++c) bound[static_cast<size_t>(i * qs + h * t.d + c)] = 2 * error * largest;
    }
  }
  std::map<std::string, std::vector<float>> first;
  test::on_every_table([&](const Exec& exec) {
    std::vector<float> o(q.size(), 77);
    a.o = o.data();
    attention(exec, a);
    auto [it, fresh] = first.emplace(ops_name(exec.ops), o);
    ASSERT_EQ(0, std::memcmp(it->second.data(), o.data(), o.size() * sizeof(float))) << "bits depend on the number of threads";
    for (size_t i = 0; fresh && i < o.size(); ++i) {
      if (static_cast<int64_t>(i) % qs >= t.heads * t.d) ASSERT_EQ(o[i], 77) << "wrote between rows";
      else ASSERT_NEAR(o[i], want[i], bound[i]) << "row " << static_cast<int64_t>(i) / qs << " column " << static_cast<int64_t>(i) % qs;
    }
  });
}

TEST(Attention, EveryShape) {
  for (Compute compute : {Compute::f32, Compute::bf16}) {
    SCOPED_TRACE(compute_name(compute));
    for (int d : {16, 20, 32, 64, 72, 128, 256}) sweep({37, 53, 2, 1, d, false, 5}, compute);
    sweep({1, 1, 1, 1, 16}, compute);
    sweep({1, 700, 4, 2, 64}, compute);
    sweep({300, 3, 4, 4, 20}, compute);
    sweep({130, 530, 2, 2, 64}, compute);
    sweep({100, 300, 1, 1, 64, false, 0, 8}, compute);
    sweep({33, 2050, 1, 1, 32}, compute);
  }
}

TEST(Attention, Causal) {
  for (Compute compute : {Compute::f32, Compute::bf16}) {
    SCOPED_TRACE(compute_name(compute));
    sweep({70, 70, 4, 2, 32, true}, compute);
    sweep({300, 300, 1, 1, 64, true}, compute);
    sweep({50, 290, 2, 1, 16, true, 3}, compute);
    sweep({60, 20, 1, 1, 16, true}, compute);   // the first rows see nothing and give zeros
  }
}

TEST(Attention, NaNReachesItsRowOnly) {
  for (Compute compute : {Compute::f32, Compute::bf16}) {
    test::on_every_table([&](const Exec& exec) {
      auto q = test::normal(50 * 32, 1);
      const auto k = test::normal(60 * 32, 2);
      std::vector<float> o(q.size());
      q[7 * 32 + 3] = NAN;
      AttentionArgs a{.q = q.data(), .k = k.data(), .v = k.data(), .o = o.data(), .q_rows = 50, .kv_rows = 60, .q_stride = 32,
                      .k_stride = 32, .v_stride = 32, .o_stride = 32, .heads = 1, .kv_heads = 1, .head_dim = 32, .scale = 0.2f};
      a.compute = compute;
      attention(exec, a);
      for (size_t i = 0; i < o.size(); ++i) ASSERT_EQ(std::isnan(o[i]), i / 32 == 7) << i;
    }, {2});
  }
}

}  // namespace
}  // namespace zt
