// What is written as bf16 tiles must be, bit for bit, the rounded float32 result, and a product must not care which of the two it reads.
#include "kernels/activations.h"

#include <cstring>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/test_support.h"

namespace zt {
namespace {

struct Tiles {
  std::vector<uint16_t> values;
  Activations a;
  Tiles(int64_t rows, int64_t cols) : values(static_cast<size_t>(tile_values(rows, cols)) + 32, 0x7FC0) {   // NaN where nothing is written
    uint16_t* p = values.data();
    while (reinterpret_cast<uintptr_t>(p) % 64) ++p;
    a = {p, rows, cols};
  }
  uint16_t at(int64_t r, int64_t c) const { return a.tiles[(r / 16 * (a.cols / 32) + c / 32) * 512 + r % 16 * 32 + c % 32]; }
};

struct Rows {
  std::vector<float> values;
  Mat m;
  Rows(int64_t rows, int64_t cols) : values(static_cast<size_t>(rows * cols)), m{values.data(), rows, cols, cols} {}
};

void expect_rounded(const Rows& want, const Tiles& have) {
  for (int64_t r = 0; r < want.m.rows; ++r)
    for (int64_t c = 0; c < want.m.cols; ++c) ASSERT_EQ(have.at(r, c), to_bf16(want.m.row(r)[c]).bits) << "row " << r << " column " << c;
}

// f(exec, y) once into float32 and once into tiles.
template <class F>
void both_ways(int64_t rows, int64_t cols, F&& f) {
  test::on_every_table([&](const Exec& exec) {
    Tiles tiles(rows, cols);
    if (!exec.ops.to_bf16_tiles) {
      EXPECT_THROW(f(exec, tiles.a), Error);
      return;
    }
    Rows plain(rows, cols);
    f(exec, plain.m);
    f(exec, tiles.a);
    expect_rounded(plain, tiles);
  }, {1, 3});
}

TEST(Activations, NormsAndSwiglu) {
  for (int64_t rows : {1, 16, 37, 70}) {
    for (int64_t cols : {32, 96}) {
      const auto x = test::normal(rows * 2 * cols, 1), w = test::normal(cols, 2), table = test::normal(6 * cols, 3);
      std::vector<int32_t> row;
      for (int64_t i = 0; i < rows; ++i) row.push_back(static_cast<int32_t>(i % 3));
      const ConstMat in{x.data(), rows, cols, 2 * cols}, wide{x.data(), rows, 2 * cols, 2 * cols};
      both_ways(rows, cols, [&](const Exec& e, const Activations& y) { rms_norm(e, in, w.data(), 1e-6f, y); });
      both_ways(rows, cols, [&](const Exec& e, const Activations& y) { layer_norm(e, in, w.data(), w.data(), 1e-6f, y); });
      both_ways(rows, cols, [&](const Exec& e, const Activations& y) { swiglu(e, wide, rows % 2 == 0, y); });
      both_ways(rows, cols, [&](const Exec& e, const Activations& y) {
        rms_norm_modulate(e, in, w.data(), 1e-6f, table.data(), table.data() + cols, 2 * cols, row.data(), y);
      });
    }
  }
}

TEST(Activations, AttentionOfAnyHeadDim) {
  for (int d : {8, 16, 24, 64}) {
    const int heads = 4;
    const int64_t rows = 45, width = int64_t{heads} * d;
    const auto q = test::normal(rows * width, 1), k = test::normal(rows * width, 2), v = test::normal(rows * width, 3);
    both_ways(rows, width, [&](const Exec& exec, const Activations& y) {
      AttentionArgs a;
      a.q = q.data(), a.k = k.data(), a.v = v.data(), a.o = y.data, a.o_tiles = y.tiles;
      a.q_rows = a.kv_rows = rows, a.q_stride = a.k_stride = a.v_stride = a.o_stride = width;
      a.heads = a.kv_heads = heads, a.head_dim = d, a.compute = Compute::bf16;
      attention(exec, a);
    });
  }
}

TEST(Activations, ProductsReadTiles) {
  for (int64_t M : {1, 31, 130, 700}) {
    for (int64_t N : {16, 70}) {
      const int64_t K = 96;
      const auto x = test::normal(M * K, 1), w = test::normal(N * K, 2);
      test::on_every_table([&](const Exec& exec) {
        if (!exec.ops.to_bf16_tiles) return;
        const PackedWeight p = pack_weight(exec.ops, View{w.data(), DType::f32, {N, K}}, 1, Compute::bf16);
        Rows plain(M, K), want(M, N), have(M, N);
        Tiles tiles(M, K);
        rms_norm(exec, {x.data(), M, K, K}, nullptr, 1e-6f, plain.m);
        rms_norm(exec, {x.data(), M, K, K}, nullptr, 1e-6f, tiles.a);
        gemm(exec, {plain.m.data, M, K, {}, K}, p, {.data = want.m.data, .row_stride = N});
        GemmInput in{.rows = M, .segment = K, .tiles = tiles.a.tiles};
        gemm(exec, in, p, {.data = have.m.data, .row_stride = N});
        ASSERT_EQ(0, std::memcmp(want.values.data(), have.values.data(), want.values.size() * sizeof(float)));
        in.segment = K / 2;
        EXPECT_THROW(gemm(exec, in, p, {.data = have.m.data, .row_stride = N}), Error);
        in.segment = K;
        const PackedWeight two = pack_weight(exec.ops, View{w.data(), DType::f32, {N, K}}, 1, Compute::bf16x2);
        EXPECT_THROW(gemm(exec, in, two, {.data = have.m.data, .row_stride = N}), Error);
      }, {1, 3});
    }
  }
}

// gemm_swiglu is gemm and swiglu, whether its weights are paired (16 divides F) or not.
TEST(Activations, GatedProductEqualsItsSteps) {
  for (Compute compute : {Compute::f32, Compute::bf16, Compute::bf16x2, Compute::bf16x3, Compute::mxfp8, Compute::mxfp6, Compute::mxfp4, Compute::mxint8}) {
    for (int64_t M : {1, 40, 300}) {
      for (int64_t F : {32, 96, 16, 24}) {
        const bool value_first = F != 96;
        const int64_t K = M == 40 ? 45 : 64;
        const auto x = test::normal(M * K, 1), bias = test::normal(2 * F, 3);
        auto w = test::normal(2 * F * K, 2, 0.3f);
        for (float& v : w) v = to_float(to_bf16(v));
        test::on_every_table([&](const Exec& exec) {
          SCOPED_TRACE(std::string(compute_name(compute)) + " M " + std::to_string(M) + " F " + std::to_string(F));
          const View first{w.data(), DType::f32, {F, K}}, second{w.data() + F * K, DType::f32, {F, K}}, whole{w.data(), DType::f32, {2 * F, K}};
          const GemmInput in{x.data(), M, K, {}, K};
          Rows wide(M, 2 * F), want(M, F), have(M, F);
          gemm(exec, in, pack_weight(exec.ops, whole, 1, compute), {.data = wide.m.data, .row_stride = 2 * F, .bias = bias.data()});
          swiglu(exec, wide.m, value_first, want.m);
          const std::vector<RowSource> parts{row_source(first), row_source(second)};
          const PackedWeight p = pack_gated_weight(exec.ops, parts, value_first, compute);
          EXPECT_EQ(p.paired, p.parts > 0 && F % 16 == 0);
          gemm_swiglu(exec, in, p, bias.data(), have.m);
          ASSERT_EQ(0, std::memcmp(want.values.data(), have.values.data(), want.values.size() * sizeof(float)));
          if (p.paired) {
            EXPECT_THROW(gemm(exec, in, p, {.data = wide.m.data, .row_stride = 2 * F}), Error);
          }
          if (!exec.ops.to_bf16_tiles || F % 32 != 0) return;
          Tiles tiles(M, F);
          gemm_swiglu(exec, in, p, bias.data(), tiles.a);
          expect_rounded(want, tiles);
        }, {1, 3});
      }
    }
  }
}

}  // namespace
}  // namespace zt
