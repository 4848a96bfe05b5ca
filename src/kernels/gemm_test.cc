// Products of every table against sums in double. The bound of a sum of K products is gamma(K) sum |a||b| with
// gamma(K) = K u / (1 - K u) (Higham, Accuracy and Stability, 3.1); random signs stay far below it, so a lost term shows.
#include "kernels/gemm.h"

#include <cstring>
#include <map>

#include "kernels/coded.h"
#include "kernels/test_support.h"

namespace zt {
namespace {

using test::kEps32;

struct Case {
  int64_t M, N, segments, segment;
  int64_t row_stride;                  // floats
  std::vector<int64_t> offsets;        // of each segment; empty: one run
  int end = 0;                         // which end of the product to try, see output_of
};

struct Data {
  std::vector<float> a, w, c0, bias, gate;
  std::vector<int32_t> gate_row;
  int64_t ldc;
};

Data make(const Case& t) {
  int64_t reach = 0;
  for (int64_t o : t.offsets) reach = std::max(reach, o);
  Data d;
  d.ldc = t.N + 3;
  d.a = test::normal((t.M - 1) * t.row_stride + reach + t.segment, 1);   // ends exactly where the last row does
  d.w = test::normal(t.N * t.segments * t.segment, 2, 0.3f);
  d.c0 = test::normal(t.M * d.ldc, 3);
  d.bias = test::normal(t.N, 4);
  d.gate = test::normal(3 * t.N, 5);
  for (int64_t m = 0; m < t.M; ++m) d.gate_row.push_back(static_cast<int32_t>(m % 3));
  return d;
}

GemmOutput output_of(const Case& t, const Data& d, float* c) {
  GemmOutput o;
  o.data = c, o.row_stride = d.ldc;
  if (t.end & 1) o.bias = d.bias.data();
  if (t.end & 2) o.add = true;
  if (t.end & 4) o.gate = d.gate.data(), o.gate_stride = t.N;
  if (t.end & 8) o.gate_row = d.gate_row.data();
  o.activation = static_cast<Activation>(t.end >> 4);
  return o;
}

double activate(double x, Activation a) {
  switch (a) {
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::gelu_erf: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    default: return x;
  }
}

std::vector<float> run(const Exec& exec, const Case& t, const Data& d, Compute compute) {
  const View w{d.w.data(), DType::f32, {t.N, t.segments * t.segment}};
  const PackedWeight packed = pack_weight(exec.ops, w, t.segments, compute);
  std::vector<float> c = d.c0;
  gemm(exec, {d.a.data(), t.M, t.row_stride, t.offsets, t.segment}, packed, output_of(t, d, c.data()));
  return c;
}

void check(const Case& t, const Data& d, Compute compute, const std::vector<float>& c) {
  const GemmOutput o = output_of(t, d, nullptr);
  const int64_t K = t.segments * t.segment;
  // bf16: each side is off by at most 2^-8 of itself, their product by 2^-7 and a little. In parts: only the activation is off, by 2^-17
  // with two, and there is a sum for each part.
  const double rounding = compute == Compute::bf16 ? 0x1.02p-7 : compute == Compute::bf16x2 ? 0x1.02p-17 : attention_compute(compute) == Compute::bf16 ? 0x1.02p-9 : 0;
  const int64_t parts = compute == Compute::bf16x2 ? 2 : compute == Compute::bf16x3 ? 3 : 1;
  const double u = static_cast<double>(parts * K + 4) * kEps32 + rounding;
  for (int64_t m = 0; m < t.M; ++m) {
    for (int64_t n = 0; n < d.ldc; ++n) {
      const size_t at = static_cast<size_t>(m * d.ldc + n);
      if (n >= t.N) {
        ASSERT_EQ(c[at], d.c0[at]) << "wrote past the columns at " << m << ", " << n;
        continue;
      }
      double sum = 0, size = 0;
      for (int64_t s = 0; s < t.segments; ++s) {
        for (int64_t k = 0; k < t.segment; ++k) {
          const double p = double{d.a[static_cast<size_t>(m * t.row_stride + (t.offsets.empty() ? 0 : t.offsets[static_cast<size_t>(s)]) + k)]} *
                           d.w[static_cast<size_t>(n * K + s * t.segment + k)];
          sum += p, size += std::abs(p);
        }
      }
      if (o.bias) sum += o.bias[n], size += std::abs(o.bias[n]);
      double want = activate(sum, o.activation);
      double bound = 1.2 * u * size + 8 * kEps32 * std::abs(want);   // the slope of every activation is below 1.2
      const double gate = o.gate ? o.gate[(o.gate_row ? o.gate_row[m] : 0) * o.gate_stride + n] : 1;
      want *= gate, bound *= std::abs(gate);
      if (o.gate || o.add) want += d.c0[at], bound += 2 * kEps32 * std::abs(d.c0[at]);
      ASSERT_NEAR(c[at], want, bound + 2 * kEps32 * std::abs(want)) << "row " << m << " column " << n;
    }
  }
}

void sweep(const Case& t) {
  SCOPED_TRACE("M " + std::to_string(t.M) + " N " + std::to_string(t.N) + " segments " + std::to_string(t.segments) + " of " +
               std::to_string(t.segment) + " end " + std::to_string(t.end));
  const Data given = make(t);
  Data narrow = given;
  for (float& x : narrow.w) x = to_float(to_bf16(x));
  for (Compute compute : {Compute::f32, Compute::bf16, Compute::bf16x2, Compute::bf16x3}) {
    SCOPED_TRACE(compute_name(compute));
    const Data& d = compute == Compute::bf16x2 || compute == Compute::bf16x3 ? narrow : given;
    std::map<std::string, std::vector<float>> first;
    test::on_every_table([&](const Exec& exec) {
      const std::vector<float> c = run(exec, t, d, compute);
      auto [it, fresh] = first.emplace(ops_name(exec.ops), c);
      if (fresh) check(t, d, compute, c);
      ASSERT_EQ(0, std::memcmp(it->second.data(), c.data(), c.size() * sizeof(float))) << "bits depend on the number of threads";
    });
  }
}

Case dense(int64_t M, int64_t N, int64_t K, int end = 0, int64_t gap = 0) { return {M, N, 1, K, K + gap, {}, end}; }

TEST(Gemm, DenseOfEverySize) {
  for (int64_t M : {1, 7, 16, 33, 70}) {
    for (int64_t N : {1, 3, 16, 31, 65}) {
      for (int64_t K : {1, 5, 32, 33, 64}) sweep(dense(M, N, K, 0, M % 3));
    }
  }
}

// Weights in blocks: the product is that of the weights the format gives (kernels/coded.h, tensor/block_format_test.cc), to the rounding of
// the activations to bf16, 2^-9 of each.
TEST(Gemm, WeightsInBlocks) {
  std::vector<Case> cases = {dense(130, 300, 1100), dense(700, 70, 40), dense(19, 37, 45, 1 | 4 | 8 | 1 << 4), dense(1, 48, 33)};
  Case conv{50, 9, 7, 32, 32, {}, 1};
  for (int64_t k = 0; k < 7; ++k) conv.offsets.push_back(k * 3 * 32);
  cases.push_back(conv);
  for (const Case& t : cases) {
    for (Compute compute : {Compute::mxfp8, Compute::mxfp6, Compute::mxfp4, Compute::mxint8}) {
      SCOPED_TRACE(std::string(compute_name(compute)) + " M " + std::to_string(t.M) + " N " + std::to_string(t.N));
      const Data given = make(t);
      Data rounded = given;
      BlockFormat f{};
      ASSERT_TRUE(block_format_of(compute, f));
      round_to_blocks(f, rounded.w.data(), t.N, t.segments * t.segment);
      std::map<std::string, std::vector<float>> first;
      test::on_every_table([&](const Exec& exec) {
        const std::vector<float> c = run(exec, t, given, compute);
        auto [it, fresh] = first.emplace(ops_name(exec.ops), c);
        if (fresh) check(t, rounded, compute, c);
        ASSERT_EQ(0, std::memcmp(it->second.data(), c.data(), c.size() * sizeof(float))) << "bits depend on the number of threads";
        if (exec.ops.gemm_bf16) {
          ASSERT_EQ(0, std::memcmp(c.data(), run(exec, t, rounded, Compute::bf16).data(), c.size() * sizeof(float)));
        }
      });
    }
  }
  const auto w = std::vector<float>{1, INFINITY, 3, 4};
  test::on_every_table([&](const Exec& exec) { EXPECT_THROW(pack_weight(exec.ops, View{w.data(), DType::f32, {2, 2}}, 1, Compute::mxfp4), Error); }, {1});
}

TEST(Gemm, DeepAndWide) {
  sweep(dense(130, 300, 1100));
  sweep(dense(3, 1000, 2100, 1));
  sweep(dense(257, 40, 70, 3));
  sweep(dense(700, 70, 40));        // enough rows that each thread takes all columns
}

TEST(Gemm, EveryEnd) {
  for (int activation = 0; activation < 4; ++activation) {
    for (int flags = 0; flags < 16; ++flags) {
      if ((flags & 8) && !(flags & 4)) continue;
      sweep(dense(19, 37, 45, flags | activation << 4));
    }
  }
}

TEST(Gemm, ConvolutionsAsSegments) {
  for (int64_t channels : {1, 2, 3, 8, 12, 32, 48, 64}) {
    for (int64_t dilation : {1, 3}) {
      for (int64_t stride : {1, 2}) {
        Case t{50, 9, 7, channels, stride * channels, {}, 1};
        for (int64_t k = 0; k < 7; ++k) t.offsets.push_back(k * dilation * channels);
        sweep(t);
      }
    }
  }
  // Two-dimensional 3x3 over rows of 11 pixels, and taps in an order that cannot be joined.
  for (int64_t channels : {5, 32}) {
    Case t{60, 20, 9, channels, channels, {}, 0};
    for (int64_t y = 0; y < 3; ++y) {
      for (int64_t x = 0; x < 3; ++x) t.offsets.push_back((y * 11 + x) * channels);
    }
    sweep(t);
    std::swap(t.offsets[1], t.offsets[5]);
    sweep(t);
  }
}

TEST(Gemm, NaNReachesItsRowOnly) {
  test::on_every_table([&](const Exec& exec) {
    for (Compute compute : {Compute::f32, Compute::bf16}) {
      const Case t = dense(40, 33, 45);
      Data d = make(t);
      d.a[static_cast<size_t>(5 * t.row_stride + 44)] = NAN;
      const std::vector<float> c = run(exec, t, d, compute);
      for (int64_t m = 0; m < t.M; ++m) {
        for (int64_t n = 0; n < t.N; ++n) ASSERT_EQ(std::isnan(c[static_cast<size_t>(m * d.ldc + n)]), m == 5) << m << " " << n;
      }
    }
  }, {1, 2});
}

// Weights that bf16 cannot hold are never rounded under bf16x3, wherever in the matrix the odd one stands.
TEST(Gemm, ThreePartsOnlyForNarrowWeights) {
  const Case t = dense(40, 33, 45);
  Data d = make(t);
  for (float& x : d.w) x = to_float(to_bf16(x));
  d.w.back() = 1 + 0x1p-9f;
  test::on_every_table([&](const Exec& exec) {
    const View w{d.w.data(), DType::f32, {t.N, 45}};
    EXPECT_EQ(pack_weight(exec.ops, w, 1, Compute::bf16x3).parts, 0);
    if (exec.ops.gemm_bf16) {
      EXPECT_EQ(pack_weight(exec.ops, View{d.w.data(), DType::f32, {t.N - 1, 45}}, 1, Compute::bf16x3).parts, 3);
    }
    check(t, d, Compute::f32, run(exec, t, d, Compute::bf16x3));
  }, {1});
}

TEST(Gemm, StackedAndNarrowWeights) {
  const auto w = test::normal(50 * 40, 1);
  std::vector<uint16_t> half;
  for (float x : w) half.push_back(to_bf16(x).bits);
  std::vector<float> rounded;
  for (uint16_t x : half) rounded.push_back(to_float(bf16_t{x}));
  const auto a = test::normal(10 * 40, 2);
  test::on_every_table([&](const Exec& exec) {
    const std::vector<RowSource> parts = {row_source({half.data(), DType::bf16, {7, 40}}),
                                          row_source({half.data() + 7 * 40, DType::bf16, {1, 40}}),
                                          row_source({half.data() + 8 * 40, DType::bf16, {42, 40}})};
    std::vector<float> c(10 * 50), want(10 * 50);
    gemm(exec, {a.data(), 10, 40, {}, 40}, pack_weight(exec.ops, parts, 1, Compute::f32), {.data = c.data(), .row_stride = 50});
    const View whole{rounded.data(), DType::f32, {50, 40}};
    gemm(exec, {a.data(), 10, 40, {}, 40}, pack_weight(exec.ops, whole, 1, Compute::f32), {.data = want.data(), .row_stride = 50});
    ASSERT_EQ(c, want);
  }, {2});
}

// Above 4 MiB results are written past the caches: the same bits as in two halves below it, also by rows and columns left over.
TEST(Gemm, LargeResultsAreStreamed) {
  const int64_t M = 1030, N = 1280, K = 40;
  const auto a = test::normal(M * K, 1), w = test::normal(N * K, 2), bias = test::normal(N, 3);
  test::on_every_table([&](const Exec& exec) {
    for (Compute compute : {Compute::f32, Compute::bf16}) {
      for (int64_t columns : {N, N - 5}) {
        const View view{w.data(), DType::f32, {columns, K}};
        const PackedWeight packed = pack_weight(exec.ops, view, 1, compute);
        Tensor whole({M, N}), halves({M, N});
        gemm(exec, {a.data(), M, K, {}, K}, packed, {.data = whole.data(), .row_stride = N, .bias = bias.data()});
        for (int64_t m : {int64_t{0}, M / 2}) {
          gemm(exec, {a.data() + m * K, M / 2, K, {}, K}, packed, {.data = halves.data() + m * N, .row_stride = N, .bias = bias.data()});
        }
        ASSERT_EQ(0, std::memcmp(whole.data(), halves.data(), static_cast<size_t>(M * N) * sizeof(float)));
      }
    }
  }, {1, 2});
}

// In memory of an earlier weight and on several threads: the same bytes, also where rows and columns are left over.
TEST(Gemm, PacksIntoOldMemory) {
  const auto first = test::normal(100 * 96, 1), second = test::normal(100 * 96, 2);
  test::on_every_table([&](const Exec& exec) {
    for (Compute compute : {Compute::f32, Compute::bf16, Compute::bf16x2, Compute::bf16x3, Compute::mxfp8, Compute::mxfp6, Compute::mxfp4, Compute::mxint8})
      for (const auto& [n, k] : {std::pair<int64_t, int64_t>{96, 64}, {77, 33}, {5, 96}, {64, 50}}) {
        auto source = [&, k = k, n = n](const std::vector<float>& v) { return std::vector<RowSource>{row_source({v.data(), DType::f32, {n, k}})}; };
        for (bool gated : {false, true}) {
          if (gated && n % 2) continue;
          auto pack = [&](const std::vector<float>& v, PackInto into) {
            return gated ? pack_gated_weight(exec.ops, source(v), true, compute, std::move(into)) : pack_weight(exec.ops, source(v), 1, compute, std::move(into));
          };
          const PackedWeight wanted = pack(second, {});
          PackedWeight old = pack(first, {{}, &exec.threads});
          const void* memory = old.data.data();
          const PackedWeight got = pack(second, {std::move(old), &exec.threads});
          EXPECT_EQ(got.data.data(), memory);
          ASSERT_EQ(got.data.size(), wanted.data.size());
          EXPECT_EQ(0, std::memcmp(got.data.data(), wanted.data.data(), wanted.data.size()));
        }
      }
  }, {1, 3});
}

// A weight that no code can hold is an error of the caller's thread, whichever thread met it.
TEST(Gemm, PackingThatFails) {
  auto w = test::normal(256 * 64, 1);
  w[200 * 64] = INFINITY;
  const std::vector<RowSource> source{row_source({w.data(), DType::f32, {256, 64}})};
  test::on_every_table([&](const Exec& exec) { EXPECT_THROW(pack_weight(exec.ops, source, 1, Compute::mxfp4, {{}, &exec.threads}), Error); }, {1, 3});
}

TEST(Gemm, RefusesWhatDoesNotFit) {
  Threads threads(1);
  Arena scratch;
  const Exec exec{threads, ops_by_name("ref"), scratch};
  const std::vector<float> w(12);
  std::vector<float> c(12);
  const PackedWeight p = pack_weight(exec.ops, View{w.data(), DType::f32, {3, 4}}, 1, Compute::f32);
  EXPECT_THROW(gemm(exec, {w.data(), 1, 5, {}, 5}, p, {.data = c.data(), .row_stride = 3}), Error);
  EXPECT_THROW(pack_weight(exec.ops, View{w.data(), DType::f32, {3, 4}}, 3, Compute::f32), Error);
  EXPECT_THROW(pack_weight(exec.ops, View{w.data(), DType::f32, {12}}, 1, Compute::f32), Error);
  if (available_ops().size() > 1) {
    const Exec other{threads, ops_by_name(available_ops()[1]), scratch};
    EXPECT_THROW(gemm(other, {w.data(), 1, 4, {}, 4}, p, {.data = c.data(), .row_stride = 3}), Error);
  }
}

}  // namespace
}  // namespace zt
