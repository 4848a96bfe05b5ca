#include "kernels/block_mask.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/ops.h"

namespace zt {

namespace {

int64_t blocks_of(int64_t rows, int64_t size) { return (rows + size - 1) / size; }

// out[p, d] = mean of rows p * kPool ... of a head.
void pool(const float* x, int64_t stride, int64_t rows, int64_t head_dim, int64_t p, float* out) {
  const int64_t first = p * kPool, n = std::min(kPool, rows - first);
  std::fill_n(out, head_dim, 0.0f);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t d = 0; d < head_dim; ++d) out[d] += x[(first + i) * stride + d];
  for (int64_t d = 0; d < head_dim; ++d) out[d] /= static_cast<float>(n);
}

struct Pooled {
  const float *q, *k;        // of one head: [q_pools, d]; panels of gemm_f32
  int64_t q_pools, k_pools, k_pad;
};

struct Room {                // of one worker
  float* scores;             // [kMaskBlock / kPool][k_pad]
  float* weight;             // [k_blocks]
};

// One row of the mask; the number of blocks kept.
int32_t choose(const Ops& ops, const AttentionArgs& a, const Pooled& p, const Room& room, int64_t q_block, int64_t k_blocks, int32_t* kept) {
  constexpr int64_t per = kMaskBlock / kPool;
  const int64_t D = a.head_dim, first = q_block * per, m = std::min(per, p.q_pools - first), zero = 0;
  ops.gemm_f32({p.q + first * D, D, &zero, D, 0, D, p.k, D, m, p.k_pad, room.scores, p.k_pad, false});
  std::fill_n(room.weight, k_blocks, 0.0f);
  for (int64_t i = 0; i < m; ++i) {
    const float* s = room.scores + i * p.k_pad;
    const float top = *std::max_element(s, s + p.k_pools);
    float sum = 0;
    for (int64_t j = 0; j < p.k_pools; ++j) sum += std::exp((s[j] - top) * a.scale);
    for (int64_t j = 0; j < p.k_pools; ++j) room.weight[j / per] += std::exp((s[j] - top) * a.scale) / (sum * static_cast<float>(m));
  }
  std::iota(kept, kept + k_blocks, 0);
  const int64_t own = std::min(q_block, k_blocks - 1), sinks = blocks_of(a.sink, kMaskBlock);
  if (q_block < sinks) return static_cast<int32_t>(k_blocks);
  auto always = [&](int32_t x) { return x == own || x < sinks; };
  const float share = static_cast<float>(a.mass), whole = std::accumulate(room.weight, room.weight + k_blocks, 0.0f);
  if (!std::isfinite(whole)) return static_cast<int32_t>(k_blocks);
  std::sort(kept, kept + k_blocks, [&](int32_t x, int32_t y) {
    if (always(x) != always(y)) return always(x);
    return room.weight[x] != room.weight[y] ? room.weight[x] > room.weight[y] : x < y;
  });
  float held = 0;
  int32_t n = 0;
  while (n < k_blocks && (always(kept[n]) || held < share * whole)) held += room.weight[kept[n++]];
  std::sort(kept, kept + n);
  return n;
}

}  // namespace

BlockMask choose_blocks(const Exec& exec, const AttentionArgs& a) {
  const Ops& ops = exec.ops;
  const int64_t D = a.head_dim, q_pools = blocks_of(a.q_rows, kPool), k_pools = blocks_of(a.kv_rows, kPool);
  const int64_t q_blocks = blocks_of(a.q_rows, kMaskBlock), k_blocks = blocks_of(a.kv_rows, kMaskBlock);
  const int64_t k_pad = blocks_of(k_pools, ops.f32_lane) * ops.f32_lane, group = a.heads / a.kv_heads;
  float* q = exec.scratch.take<float>(a.heads * q_pools * D);
  float* k = exec.scratch.take<float>(a.kv_heads * k_pools * D);
  float* panels = exec.scratch.take<float>(a.kv_heads * k_pad * D);
  int32_t* kept = exec.scratch.take<int32_t>(a.heads * q_blocks * k_blocks);
  int32_t* count = exec.scratch.take<int32_t>(a.heads * q_blocks);
  const int64_t room_floats = kMaskBlock / kPool * k_pad + k_blocks;
  float* room = exec.scratch.take<float>(room_floats * exec.threads.count());

  exec.threads.parallel_for(a.heads * q_pools, 4, [&](int64_t i, int64_t end, int) {
    for (; i < end; ++i) pool(a.q + i / q_pools * D, a.q_stride, a.q_rows, D, i % q_pools, q + i * D);
  });
  exec.threads.parallel_for(a.kv_heads * k_pools, 4, [&](int64_t i, int64_t end, int) {
    for (; i < end; ++i) pool(a.k + i / k_pools * D, a.k_stride, a.kv_rows, D, i % k_pools, k + i * D);
  });
  exec.threads.parallel_for(a.kv_heads, 1, [&](int64_t h, int64_t end, int) {
    for (; h < end; ++h)
      for (int64_t j = 0; j < k_pools; j += ops.f32_cols) {
        const int64_t width = std::min<int64_t>(ops.f32_cols, k_pad - j);
        ops.transpose_f32(k + (h * k_pools + j) * D, D, std::min(width, k_pools - j), D, width, panels + (h * k_pad + j) * D);
      }
  });
  exec.threads.parallel_for(a.heads * q_blocks, 1, [&](int64_t i, int64_t end, int worker) {
    float* r = room + worker * room_floats;
    for (; i < end; ++i) {
      const int64_t h = i / q_blocks;
      const Pooled p{q + h * q_pools * D, panels + h / group * k_pad * D, q_pools, k_pools, k_pad};
      count[i] = choose(ops, a, p, {r, r + kMaskBlock / kPool * k_pad}, i % q_blocks, k_blocks, kept + i * k_blocks);
    }
  });
  return {q_blocks, k_blocks, kept, count};
}

}  // namespace zt
