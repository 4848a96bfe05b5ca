// Threaded driver of attention: keys and values of a head are packed once, then blocks of queries run over them.
#include "kernels/attention.h"

#include <algorithm>
#include <limits>

#include "kernels/block_mask.h"
#include "kernels/ops.h"

namespace zt {

namespace {

constexpr int64_t kQueries = 48, kKeys = 240;   // of one block in float32: multiples of every table's register tile
static_assert(kMaskBlock % kQueries == 0);

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// How many of the keys row i sees: first_valid + i, at most kv_rows.
int64_t first_valid(const AttentionArgs& a, int64_t row) {
  return a.causal ? row + 1 + a.kv_rows - a.q_rows : std::numeric_limits<int64_t>::max();
}

// Keys and values of one head in the panels of gemm_f32.
struct Packed {
  float* k;   // panels of keys [head_dim][width]
  float* v;   // panels of channels [kv_rows][width]
};

struct Layout {
  int64_t kv_pad, d_pad;        // rounded up to lanes
  int64_t k_floats, v_floats;
};

void pack_head(const Ops& ops, const AttentionArgs& a, int64_t head, const Layout& l, const Packed& p, int64_t part) {
  const int64_t D = a.head_dim, cols = ops.f32_cols;
  const int64_t panels = (a.kv_rows + cols - 1) / cols;
  if (part < panels) {
    const int64_t j = part * cols, width = std::min(cols, l.kv_pad - j);
    ops.transpose_f32(a.k + j * a.k_stride + head * D, a.k_stride, std::min(width, a.kv_rows - j), D, width, p.k + j * D);
    return;
  }
  const int64_t c = (part - panels) * cols, width = std::min(cols, l.d_pad - c), real = std::min(width, D - c);
  for (int64_t j = 0; j < a.kv_rows; ++j) {
    const float* row = a.v + j * a.v_stride + head * D + c;
    float* out = p.v + c * a.kv_rows + j * width;
    std::copy(row, row + real, out);
    std::fill(out + real, out + width, 0.0f);
  }
}

struct Work {      // scratch of one worker
  float* s;        // [kQueries, round_up(kKeys)]
  float* o;        // [kQueries, d_pad]
  float* top;      // [kQueries]
  float* sum;      // [kQueries]
};

// A block of queries against the keys in `seen`: blocks of kMaskBlock keys, ascending; none given: all keys.
void attend_block(const Ops& ops, const AttentionArgs& a, const Layout& l, const Packed& p, const Work& w, int64_t head, int64_t row,
                  std::span<const int32_t> seen) {
  const int64_t D = a.head_dim, m = std::min(kQueries, a.q_rows - row), zero = 0;
  const int64_t lds = round_up(kKeys, ops.f32_cols);
  std::fill(w.o, w.o + m * l.d_pad, 0.0f);
  std::fill(w.top, w.top + m, -std::numeric_limits<float>::infinity());
  std::fill(w.sum, w.sum + m, 0.0f);
  const int64_t visible = a.causal ? std::clamp<int64_t>(first_valid(a, row + m - 1), 0, a.kv_rows) : a.kv_rows;
  const int64_t block = seen.empty() ? std::max<int64_t>(ops.f32_cols, kKeys / ops.f32_cols * ops.f32_cols) : kMaskBlock;
  const int64_t steps = seen.empty() ? (visible + block - 1) / block : static_cast<int64_t>(seen.size());
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t j = (seen.empty() ? step : seen[static_cast<size_t>(step)]) * block;
    const int64_t n = std::min(block, visible - j), n_pad = std::min(round_up(n, ops.f32_lane), l.kv_pad - j);
    // Whole panels: the last one of the block may go past what is visible, never past the packed keys.
    const int64_t span = std::min(round_up(n_pad, ops.f32_cols), l.kv_pad - j);
    F32Block b{a.q + row * a.q_stride + head * D, a.q_stride, &zero, D, 0, D, p.k + j * D, D, m, span, w.s, lds, false};
    b.a = a.q + row * a.q_stride + head * D;
    ops.gemm_f32(b);
    const int64_t limit = first_valid(a, row);
    ops.softmax({w.s, lds, m, n, span, a.causal ? limit - j : limit, a.scale, w.top, w.sum, w.o, l.d_pad, l.d_pad});
    // o += weights * v: the K axis of this product is the keys, offset so that column 0 of s is key j.
    const int64_t shift = -j;
    F32Block c{w.s, lds, &shift, a.kv_rows, j, j + n, p.v, a.kv_rows, m, l.d_pad, w.o, l.d_pad, true};
    ops.gemm_f32(c);
  }
  for (int64_t i = 0; i < m; ++i) {
    const float r = w.sum[i] == 0 ? 0.0f : 1.0f / w.sum[i];   // no visible key: zeros
    float* o = a.o + (row + i) * a.o_stride + head * D;
    for (int64_t d = 0; d < D; ++d) o[d] = w.o[i * l.d_pad + d] * r;
  }
}

void attention_f32(const Exec& exec, const AttentionArgs& a, const BlockMask& mask) {
  const Ops& ops = exec.ops;
  Arena::Scope scope(exec.scratch);
  const int threads = exec.threads.count();
  Layout l{round_up(a.kv_rows, ops.f32_lane), round_up(a.head_dim, ops.f32_lane), 0, 0};
  l.k_floats = round_up(l.kv_pad * a.head_dim, 16), l.v_floats = round_up(l.d_pad * a.kv_rows, 16);
  float* packed = exec.scratch.take<float>((l.k_floats + l.v_floats) * a.kv_heads);
  auto head_of = [&](int64_t h) { return Packed{packed + h * (l.k_floats + l.v_floats), packed + h * (l.k_floats + l.v_floats) + l.k_floats}; };
  const int64_t parts = (a.kv_rows + ops.f32_cols - 1) / ops.f32_cols + (a.head_dim + ops.f32_cols - 1) / ops.f32_cols;
  exec.threads.parallel_for(parts * a.kv_heads, 1, [&](int64_t i, int64_t end, int) {
    for (; i < end; ++i) pack_head(ops, a, i / parts, l, head_of(i / parts), i % parts);
  });
  const int64_t s_floats = kQueries * round_up(kKeys, ops.f32_cols), o_floats = kQueries * l.d_pad;
  const int64_t room = s_floats + o_floats + 2 * round_up(kQueries, 16);
  float* scratch = exec.scratch.take<float>(room * threads);
  const int64_t blocks = (a.q_rows + kQueries - 1) / kQueries, group = a.heads / a.kv_heads;
  exec.threads.parallel_for(blocks * a.heads, 1, [&](int64_t i, int64_t end, int worker) {
    float* s = scratch + worker * room;
    const Work w{s, s + s_floats, s + s_floats + o_floats, s + s_floats + o_floats + round_up(kQueries, 16)};
    for (; i < end; ++i) {
      const int64_t h = i / blocks, kv = h / group;
      const int64_t row = i % blocks * kQueries;
      attend_block(ops, a, l, head_of(kv), w, h, row, mask.row(h, row / kMaskBlock));
    }
  });
}

void attention_bf16(const Exec& exec, const AttentionArgs& a, const BlockMask& mask) {
  const Ops& ops = exec.ops;
  Arena::Scope scope(exec.scratch);
  const int64_t D = a.head_dim, size = round_up(a.kv_rows, 32) * round_up(D, 32);   // values of a head's packed keys, and values
  uint16_t* packed = exec.scratch.take<uint16_t>(2 * size * a.kv_heads);
  constexpr int64_t kPart = 256;
  const int64_t parts = (a.kv_rows + kPart - 1) / kPart;
  float* longest = exec.scratch.take<float>(parts * a.kv_heads);
  exec.threads.parallel_for(parts * a.kv_heads, 1, [&](int64_t i, int64_t end, int) {
    for (; i < end; ++i) {
      const int64_t h = i / parts, first = i % parts * kPart;
      longest[i] = ops.bf16_pack_keys({a.k + h * D, a.v + h * D, a.k_stride, a.v_stride, a.kv_rows, first, std::min(a.kv_rows, first + kPart), D,
                          packed + 2 * h * size, packed + (2 * h + 1) * size});
    }
  });
  for (int64_t h = 0; h < a.kv_heads; ++h)   // of each head, into its first part
    for (int64_t i = 1; i < parts; ++i) {
      const float x = longest[h * parts + i];
      if (x > longest[h * parts] || x != x) longest[h * parts] = x;
    }
  const int64_t room = round_up(ops.bf16_attention_scratch(D), 64), rows = ops.bf16_queries;
  char* scratch = exec.scratch.take<char>(room * exec.threads.count());
  const int64_t blocks = (a.q_rows + rows - 1) / rows, group = a.heads / a.kv_heads;
  exec.threads.parallel_for(blocks * a.heads, 1, [&](int64_t i, int64_t end, int worker) {
    for (; i < end; ++i) {
      const int64_t h = i / blocks, row = i % blocks * rows, kv = h / group;
      const std::span<const int32_t> seen = mask.row(h, row / kMaskBlock);
      ops.bf16_attention({a.q + row * a.q_stride + h * D, a.o_tiles ? nullptr : a.o + row * a.o_stride + h * D, a.o_tiles, row, h * D,
                          int64_t{a.heads} * D, a.q_stride, a.o_stride, std::min(rows, a.q_rows - row), first_valid(a, row),
                          seen.data(), static_cast<int64_t>(seen.size()), kMaskBlock, packed + 2 * kv * size, packed + (2 * kv + 1) * size,
                          a.kv_rows, D, a.scale, longest[kv * parts], scratch + worker * room});
    }
  });
}

}  // namespace

void attention(const Exec& exec, const AttentionArgs& a) {
  if (a.heads < 1 || a.kv_heads < 1 || a.heads % a.kv_heads != 0 || a.head_dim < 1) {
    fail(ErrorKind::internal, "attention: found {} heads of {} over {} key heads, wanted a multiple; fix the caller", a.heads, a.head_dim,
         a.kv_heads);
  }
  const bool tiled = attention_compute(a.compute) == Compute::bf16 && exec.ops.bf16_attention;
  if (a.o_tiles && (!tiled || a.heads * a.head_dim % kTileCols != 0)) {
    fail(ErrorKind::internal, "attention: found a result in tiles of {} heads of {} computed in {}; fix the caller", a.heads, a.head_dim,
         compute_name(a.compute));
  }
  if (!(a.mass > 0) || (a.mass < 1 && a.causal))
    fail(ErrorKind::internal, "attention: found mass {}{}, wanted above 0, and 1 with causal; fix the caller", a.mass, a.causal ? " with causal" : "");
  if (a.q_rows < 1) return;
  Arena::Scope scope(exec.scratch);
  BlockMask mask;
  if (a.mass < 1 && a.kv_rows > kMaskBlock) mask = choose_blocks(exec, a);
  if (tiled) attention_bf16(exec, a, mask);
  else attention_f32(exec, a, mask);
}

}  // namespace zt
