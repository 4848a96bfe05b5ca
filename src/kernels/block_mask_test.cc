// Which blocks are kept, and that attention over them equals attention over exactly their keys, in double.
#include "kernels/block_mask.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "kernels/test_support.h"

namespace zt {
namespace {

struct Heads {
  std::vector<float> q, k, v;
  AttentionArgs a;
  Heads(int64_t q_rows, int64_t kv_rows, int heads, int kv_heads, int d)
      : q(test::normal(q_rows * heads * d, 1)), k(test::normal(kv_rows * kv_heads * d, 2)), v(test::normal(kv_rows * kv_heads * d, 3)) {
    a.q = q.data(), a.k = k.data(), a.v = v.data();
    a.q_rows = q_rows, a.kv_rows = kv_rows, a.heads = heads, a.kv_heads = kv_heads, a.head_dim = d;
    a.q_stride = a.o_stride = heads * d, a.k_stride = a.v_stride = kv_heads * d;
    a.scale = 1 / std::sqrt(static_cast<float>(d));
  }
};

std::vector<int32_t> list(std::span<const int32_t> x) { return {x.begin(), x.end()}; }

TEST(BlockMask, KeepsWhereTheWeightIs) {
  Heads h(5 * kMaskBlock, 6 * kMaskBlock, 2, 1, 32);
  std::fill(h.q.begin(), h.q.end(), 0.0f), std::fill(h.k.begin(), h.k.end(), 0.0f);
  // Queries of block 3 look for what keys of block 5 are; head 1 for block 1.
  for (int64_t i = 3 * kMaskBlock; i < 4 * kMaskBlock; ++i) h.q[static_cast<size_t>(i * 64)] = 8, h.q[static_cast<size_t>(i * 64 + 32 + 1)] = 8;
  for (int64_t j = 5 * kMaskBlock; j < 6 * kMaskBlock; ++j) h.k[static_cast<size_t>(j * 32)] = 8;
  for (int64_t j = kMaskBlock; j < 2 * kMaskBlock; ++j) h.k[static_cast<size_t>(j * 32 + 1)] = 8;
  h.a.mass = 0.9;
  test::on_every_table([&](const Exec& exec) {
    Arena::Scope scope(exec.scratch);
    const BlockMask m = choose_blocks(exec, h.a);
    ASSERT_EQ(m.q_blocks, 5);
    ASSERT_EQ(m.k_blocks, 6);
    EXPECT_EQ(list(m.row(0, 3)), (std::vector<int32_t>{3, 5}));
    EXPECT_EQ(list(m.row(1, 3)), (std::vector<int32_t>{1, 3}));
    EXPECT_EQ(m.row(0, 0).size(), 6u);   // all keys weigh the same: 0.9 of them are six of six
    h.a.sink = kMaskBlock + 1;           // two blocks of text
    const BlockMask sinks = choose_blocks(exec, h.a);
    EXPECT_EQ(list(sinks.row(0, 3)), (std::vector<int32_t>{0, 1, 3, 5}));
    EXPECT_EQ(sinks.row(0, 1).size(), 6u);
    h.a.sink = 0;
  });
}

TEST(BlockMask, EqualWeightsAreSharedOut) {
  Heads h(kMaskBlock, 10 * kMaskBlock, 1, 1, 16);
  std::fill(h.q.begin(), h.q.end(), 0.0f);
  for (auto [mass, count] : {std::pair{0.05, 1}, {0.45, 5}, {0.75, 8}, {1.0, 10}}) {
    h.a.mass = mass;
    test::on_every_table([&](const Exec& exec) {
      Arena::Scope scope(exec.scratch);
      EXPECT_EQ(choose_blocks(exec, h.a).row(0, 0).size(), static_cast<size_t>(count)) << mass;
    }, {2});
  }
}

TEST(BlockMask, NaNKeepsAll) {
  Heads h(2 * kMaskBlock, 4 * kMaskBlock, 1, 1, 16);
  h.q[5] = NAN;
  h.a.mass = 0.2;
  test::on_every_table([&](const Exec& exec) {
    Arena::Scope scope(exec.scratch);
    const BlockMask m = choose_blocks(exec, h.a);
    EXPECT_EQ(m.row(0, 0).size(), 4u);
    EXPECT_LT(m.row(0, 1).size(), 4u);
  }, {2});
}

// Attention over the blocks kept against the sums over their keys in double.
void against_double(Heads& h, Compute compute) {
  const AttentionArgs& a = h.a;
  h.a.compute = compute;
  std::map<std::string, std::vector<float>> first;
  test::on_every_table([&](const Exec& exec) {
    std::vector<float> o(h.q.size(), 77);
    h.a.o = o.data();
    attention(exec, h.a);
    auto [it, fresh] = first.emplace(ops_name(exec.ops), o);
    ASSERT_EQ(it->second, o) << "bits depend on the number of threads";
    if (!fresh) return;
    Arena::Scope scope(exec.scratch);
    const BlockMask m = choose_blocks(exec, a);
    size_t kept = 0;
    for (int64_t head = 0; head < a.heads; ++head)
      for (int64_t i = 0; i < a.q_rows; ++i) {
        const auto seen = m.row(head, i / kMaskBlock);
        kept += seen.size();
        std::vector<double> o_want(static_cast<size_t>(a.head_dim), 0.0);
        double sum = 0;
        for (int32_t b : seen)
          for (int64_t j = b * kMaskBlock; j < std::min<int64_t>((b + 1) * kMaskBlock, a.kv_rows); ++j) {
            const float *q = a.q + i * a.q_stride + head * a.head_dim, *k = a.k + j * a.k_stride + head / (a.heads / a.kv_heads) * a.head_dim;
            double s = 0;
            for (int c = 0; c < a.head_dim; ++c) s += double{q[c]} * k[c];
            const double w = std::exp(s * a.scale);
            sum += w;
            for (int c = 0; c < a.head_dim; ++c) o_want[static_cast<size_t>(c)] += w * a.v[j * a.v_stride + head / (a.heads / a.kv_heads) * a.head_dim + c];
          }
        for (int c = 0; c < a.head_dim; ++c)
          ASSERT_NEAR(o[static_cast<size_t>(i * a.o_stride + head * a.head_dim + c)], o_want[static_cast<size_t>(c)] / sum, compute == Compute::bf16 ? 0.03 : 2e-5)
              << "head " << head << " row " << i;
      }
    EXPECT_LT(kept, static_cast<size_t>(a.heads * a.q_rows * m.k_blocks)) << "nothing was left out";
  }, {1, 3});
}

TEST(BlockMask, AttentionSeesWhatIsKept) {
  for (Compute compute : {Compute::f32, Compute::bf16}) {
    SCOPED_TRACE(compute_name(compute));
    for (auto [q_rows, kv_rows, heads, kv_heads, d] : {std::tuple{300, 500, 2, 1, 64}, {97, 1000, 1, 1, 32}, {410, 410, 2, 2, 20}, {133, 2311, 1, 1, 128}}) {
      Heads h(q_rows, kv_rows, heads, kv_heads, d);
      h.a.mass = 0.5, h.a.sink = 7;
      against_double(h, compute);
    }
  }
}

TEST(BlockMask, WholeMassIsDenseAttention) {
  Heads h(130, 333, 2, 1, 64);
  test::on_every_table([&](const Exec& exec) {
    for (Compute compute : {Compute::f32, Compute::bf16}) {
      std::vector<float> dense(h.q.size()), masked(h.q.size());
      h.a.compute = compute;
      h.a.mass = 1, h.a.o = dense.data();
      attention(exec, h.a);
      h.a.mass = 0.999999999, h.a.o = masked.data();   // every block is kept, in another order of work for float32
      attention(exec, h.a);
      for (size_t i = 0; i < dense.size(); ++i) ASSERT_NEAR(dense[i], masked[i], 1e-5) << i;
    }
  }, {2});
}

}  // namespace
}  // namespace zt
