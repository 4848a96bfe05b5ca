// Packing of weights and the threaded drivers of the products.
#include "kernels/gemm.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>

#include "kernels/coded.h"
#include "kernels/elementwise.h"
#include "kernels/ops.h"

namespace zt {

namespace {

constexpr int64_t kTileK = kTileCols, kTileN = 16, kPanelN = 32;   // bf16 tiles: pairs along K, columns, columns of a panel

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Row range [first, first + n) of stacked matrices, as float32.
void read_rows(std::span<const RowSource> stacked, int64_t first, int64_t n, float* out) {
  for (const RowSource& w : stacked) {
    const int64_t take = std::min(n, w.rows - first);
    if (take > 0) {
      w.read(first, take, out);
      out += take * w.columns, n -= take, first += take;
    }
    first -= w.rows;
    if (n <= 0) return;
  }
}

// body(first, end) over [0, n) in pieces of `grain`, on the threads if there are any. Unlike a body of parallel_for, this one may throw.
template <class Body>
void over_rows(Threads* threads, int64_t n, int64_t grain, Body&& body) {
  if (!threads) {
    for (int64_t i = 0; i < n; i += grain) body(i, std::min(n, i + grain));
    return;
  }
  std::exception_ptr thrown;
  std::mutex mutex;
  threads->parallel_for(n, grain, [&](int64_t i, int64_t end, int) {
    try {
      body(i, end);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!thrown) thrown = std::current_exception();
    }
  });
  if (thrown) std::rethrow_exception(thrown);
}

// Whether the weights are rounded to bf16.
bool rounds_weights(Compute c) { return c == Compute::bf16 || c == Compute::bf16x2; }

bool exactly_bf16(std::span<const RowSource> stacked) {
  std::vector<float> row;
  for (const RowSource& w : stacked) {
    row.resize(static_cast<size_t>(w.columns));
    for (int64_t r = 0; !w.bf16 && r < w.rows; ++r) {
      w.read(r, 1, row.data());
      for (float v : row)
        if (std::bit_cast<uint32_t>(v) & 0xFFFF) return false;
    }
  }
  return true;
}

// Into how many bf16 an activation is split for tile products; 0: no tiles.
int parts_of(const Ops& ops, Compute compute, std::span<const RowSource> stacked) {
  if (!ops.gemm_bf16) return 0;
  switch (compute) {
    case Compute::bf16: case Compute::mxfp8: case Compute::mxfp6: case Compute::mxfp4: case Compute::mxint8: return 1;
    case Compute::bf16x2: return 2;
    case Compute::bf16x3: return exactly_bf16(stacked) ? 3 : 0;
    default: return 0;
  }
}

// Panel layout of gemm_f32: [k][width], columns past n are zero.
void pack_f32(const Ops& ops, std::span<const RowSource> stacked, PackedWeight& p, Threads* threads) {
  const int64_t k = p.k(), cols = ops.f32_cols;
  if (p.data.size() == 0) p.data = Buffer(static_cast<size_t>(round_up(p.n, ops.f32_lane) * k) * sizeof(float));
  over_rows(threads, p.n, cols, [&](int64_t j, int64_t end) {
    const int64_t n = end - j, width = std::min(cols, round_up(n, ops.f32_lane));
    std::vector<float> rows(static_cast<size_t>(n * k));
    read_rows(stacked, j, n, rows.data());
    if (BlockFormat f{}; block_format_of(p.compute, f)) round_to_blocks(f, rows.data(), n, k);
    if (rounds_weights(p.compute)) {
      for (int64_t i = 0; i < n * k; ++i) rows[static_cast<size_t>(i)] = to_float(to_bf16(rows[static_cast<size_t>(i)]));
    }
    ops.transpose_f32(rows.data(), k, n, k, width, p.data.as<float>() + j * k);
  });
}

// Row of W that stands first in the 16 of a tile at column j.
int64_t source_row(const PackedWeight& p, int64_t j) {
  if (!p.paired) return j;
  const bool value = j / kTileN % 2 == 0;
  return j / (2 * kTileN) * kTileN + (value == p.value_first ? 0 : p.n / 2);
}

// Panel layout of gemm_bf16: [k_tiles][16-column tiles][16 pairs][16 columns][2].
void pack_bf16(std::span<const RowSource> stacked, PackedWeight& p, Threads* threads) {
  const int64_t k = p.k(), k_tiles = round_up(k, kTileK) / kTileK;
  if (p.data.size() == 0) p.data = Buffer(static_cast<size_t>(round_up(p.n, kTileN) * k_tiles * kTileK) * sizeof(uint16_t));
  over_rows(threads, p.n, kTileN, [&](int64_t j, int64_t end) {
    std::vector<float> values(static_cast<size_t>(k));
    const float* row = values.data();
    const int64_t n = end - j, panel = j / kPanelN * kPanelN;
    const int64_t tiles = std::min(kPanelN, round_up(p.n - panel, kTileN)) / kTileN;   // of this panel: 1 or 2
    uint16_t* out = p.data.as<uint16_t>() + panel * k_tiles * kTileK + (j - panel) * kTileK;
    uint32_t* pairs = reinterpret_cast<uint32_t*>(out);   // two values along k as one word
    for (int64_t c = 0; c < n; ++c) {
      read_rows(stacked, source_row(p, j) + c, 1, values.data());
      for (int64_t tile = 0; tile < k_tiles; ++tile) {
        uint32_t* column = pairs + tile * tiles * kTileN * kTileK / 2 + c;
        const int64_t left = std::min(kTileK, k - tile * kTileK);
        for (int64_t i = 0; i + 1 < left; i += 2) {
          column[i / 2 * kTileN] = to_bf16(row[tile * kTileK + i]).bits | uint32_t{to_bf16(row[tile * kTileK + i + 1]).bits} << 16;
        }
        if (left % 2) column[left / 2 * kTileN] = to_bf16(row[tile * kTileK + left - 1]).bits;
      }
    }
  });
}

// Panels of codes for gemm_bf16.
void pack_coded(BlockFormat f, std::span<const RowSource> stacked, PackedWeight& p, Threads* threads) {
  const int64_t k = p.k(), panel = coded_panel_bytes(f, k);
  p.code_bits = element_bits(f);
  p.code_table = code_table(f);
  if (p.data.size() == 0) p.data = Buffer(static_cast<size_t>(round_up(p.n, kPanelN) / kPanelN * panel));
  else std::memset(p.data.data(), 0, p.data.size());   // codes are put beside each other by OR
  over_rows(threads, p.n, kPanelN, [&](int64_t first, int64_t end) {
    std::vector<float> rows(static_cast<size_t>(kTileN * k));
    for (int64_t j = first; j < end; j += kTileN) {
      const int64_t n = std::min(kTileN, end - j);
      read_rows(stacked, source_row(p, j), n, rows.data());
      encode_columns(f, rows.data(), n, k, j / kTileN % 2, p.data.as<uint8_t>() + j / kPanelN * panel);
    }
  });
}

// A with adjacent runs joined: the taps of an undilated one-dimensional convolution become one run.
struct Runs {
  const int64_t* offsets;
  int64_t count, segment;
};

Runs join_runs(Arena& scratch, const GemmInput& a) {
  const int64_t count = std::max<int64_t>(1, static_cast<int64_t>(a.offsets.size()));
  int64_t* offsets = scratch.take<int64_t>(count);
  for (int64_t s = 0; s < count; ++s) offsets[s] = a.offsets.empty() ? 0 : a.offsets[static_cast<size_t>(s)];
  int64_t length = 1;   // runs in each group; the same for all groups or no joining
  while (length < count && offsets[length] == offsets[length - 1] + a.segment) ++length;
  while (length > 1 && count % length != 0) --length;
  for (int64_t s = 0; length > 1 && s < count; ++s) {
    if (s % length != 0 && offsets[s] != offsets[s - 1] + a.segment) length = 1;
  }
  for (int64_t s = 0; s < count / length; ++s) offsets[s] = offsets[s * length];
  return {offsets, count / length, a.segment * length};
}

// A block of C: rows [m, m + rows) and columns [n, n + cols), n a multiple of the panel width.
struct Grid {
  int64_t M, N, rows, cols;
  int64_t row_blocks() const { return (M + rows - 1) / rows; }
  int64_t col_blocks() const { return (N + cols - 1) / cols; }
  int64_t count() const { return row_blocks() * col_blocks(); }
};

// Blocks of at most about `elements` results and `cols` columns, small enough that every thread gets several.
Grid make_grid(int64_t M, int64_t N, int64_t row_unit, int64_t col_unit, int64_t cols, int64_t elements, int threads) {
  Grid g{M, N, row_unit, col_unit};
  g.cols = std::min(round_up(N, col_unit), std::max(col_unit, cols / col_unit * col_unit));
  g.rows = std::min(round_up(M, row_unit), std::max(row_unit, elements / g.cols / row_unit * row_unit));
  const int64_t wanted = int64_t{4} * threads;
  while (g.count() < wanted && threads > 1) {
    if (g.rows >= 8 * row_unit) g.rows = round_up(g.rows / 2, row_unit);
    else if (g.cols > col_unit) g.cols = round_up(g.cols / 2, col_unit);
    else if (g.rows > row_unit) g.rows = round_up(g.rows / 2, row_unit);
    else break;
  }
  return g;
}

// Whether C is better written past the caches.
bool streams(const GemmOutput& c, int64_t M, int64_t N) {
  constexpr int64_t kBytes = 4 << 20;
  return M * N * 4 > kBytes && !c.add && !c.gate && c.row_stride % 16 == 0 && reinterpret_cast<uintptr_t>(c.data) % 64 == 0;
}

// The end of the block that starts at row m, column n.
FinishBlock end_of(const GemmOutput& c, int64_t m, int64_t rows, int64_t n, int64_t cols, bool stream) {
  FinishBlock f{};
  f.m = rows, f.n = cols;
  f.c = c.data + m * c.row_stride + n, f.ldc = c.row_stride;
  f.bias = c.bias ? c.bias + n : nullptr;
  f.activation = static_cast<int>(c.activation);
  f.add = c.add;
  f.gate = c.gate ? c.gate + n : nullptr, f.gate_stride = c.gate_stride;
  f.gate_row = c.gate_row ? c.gate_row + m : nullptr;
  f.stream = stream && n * sizeof(float) % 64 == 0;
  return f;
}

// Where a product goes: C, or, for paired weights, y and a bias in the order of the packed rows.
struct Target {
  const GemmOutput* c;
  const Activations* y;
  const float* bias;
};

FinishBlock end_of(const Target& t, int64_t m, int64_t rows, int64_t n, int64_t cols, bool stream) {
  if (t.c) return end_of(*t.c, m, rows, n, cols, stream);
  FinishBlock f{};
  f.m = rows, f.n = cols, f.paired = true;
  f.bias = t.bias ? t.bias + n : nullptr;
  f.c = t.y->data ? t.y->data + m * t.y->stride + n / 2 : nullptr, f.ldc = t.y->stride;
  f.tiles = t.y->tiles, f.tile_row = m, f.tile_col = n / 2, f.tile_cols = t.y->cols;
  return f;
}

void gemm_f32(const Exec& exec, const GemmInput& a, const Runs& runs, const PackedWeight& w, const GemmOutput& c) {
  const Ops& ops = exec.ops;
  const int64_t K = w.k(), N = round_up(w.n, ops.f32_lane);
  const bool stream = streams(c, a.rows, w.n);
  const Grid grid = make_grid(a.rows, N, ops.f32_rows, ops.f32_cols, 256, 24576, exec.threads.count());
  // Each `depth` of K is summed apart, then added: rounding grows with the depth, not with K. Chains of a hundred convolutions and what
  // feeds them get short ones: of a saturating sound decoder's int16 samples 1.0 % differ from float64's then, 1.8 % with one sum
  // (PyTorch: 1.2 %).
  const int64_t depth = std::min<int64_t>(ops.f32_kc, w.segments > 1 ? 64 : std::max<int64_t>(32, round_up(K / 8, 32)));
  const int64_t room = grid.rows * grid.cols;
  float* scratch = exec.scratch.take<float>(room * exec.threads.count());
  exec.threads.parallel_for(grid.count(), 1, [&](int64_t i, int64_t end, int worker) {
    for (; i < end; ++i) {
      const int64_t m = i / grid.col_blocks() * grid.rows, n = i % grid.col_blocks() * grid.cols;
      const int64_t rows = std::min(grid.rows, a.rows - m), cols = std::min(grid.cols, N - n);
      F32Block b{a.data + m * a.row_stride, a.row_stride, runs.offsets, runs.segment, 0, 0, w.data.as<float>() + n * K, K, rows, cols,
                 scratch + worker * room, grid.cols, false};
      for (int64_t k = 0; k < K; k += depth) {
        b.k0 = k, b.k1 = std::min(K, k + depth), b.accumulate = k > 0;
        ops.gemm_f32(b);
      }
      FinishBlock f = end_of(c, m, rows, n, std::min(cols, w.n - n), stream);
      f.acc = b.c, f.ldacc = b.ldc;
      ops.finish(f);
    }
  });
}

// A in bf16, as tiles that gemm_bf16 can address.
struct Bf16Rows {
  const uint16_t* data;
  int64_t block_stride, pitch, part_stride;
  const int64_t* tile_offset;
};

// Rounds the floats under A once and lets every tap of the convolution look into the same copy. Needs segments of whole tiles.
Bf16Rows round_shared(const Exec& exec, const GemmInput& a, const Runs& runs, int64_t k_tiles, int parts) {
  const auto [low, high] = std::minmax_element(runs.offsets, runs.offsets + runs.count);
  const int64_t first = *low, count = (a.rows - 1) * a.row_stride + *high - first + runs.segment;
  // The last block of rows may reach past the end: room for it, never read from A.
  const int64_t room = round_up(count + 32 * a.row_stride + kTileK, 32);
  uint16_t* copy = exec.scratch.take<uint16_t>(parts * room);
  constexpr int64_t kGrain = 1 << 15;
  exec.threads.parallel_for(count, kGrain, [&](int64_t i, int64_t end, int) {
    exec.ops.to_bf16(a.data + first + i, end - i, parts, room, copy + i);
  });
  int64_t* offset = exec.scratch.take<int64_t>(k_tiles);
  for (int64_t t = 0; t < k_tiles; ++t) offset[t] = runs.offsets[t * kTileK / runs.segment] - first + t * kTileK % runs.segment;
  return {copy, 16 * a.row_stride, a.row_stride, room, offset};
}

// Rows [m, m + rows) of A as tiles: [blocks of 16 rows][k_tiles][parts][16][32].
void gather_tiles(const Ops& ops, const GemmInput& a, const Runs& runs, int64_t K, int parts, int64_t m, int64_t rows, uint16_t* out) {
  for (int64_t i = 0; i < rows; i += 16) {
    F32Block b{};
    b.a = a.data + (m + i) * a.row_stride, b.row_stride = a.row_stride, b.offsets = runs.offsets, b.segment = runs.segment;
    b.k = K, b.m = std::min<int64_t>(16, rows - i);
    ops.to_bf16_tiles(b, parts, out + i * round_up(K, kTileK) * parts);
  }
}

// Where gather_tiles puts the tiles.
Bf16Rows gathered(Arena& scratch, const uint16_t* tiles, int64_t k_tiles, int parts) {
  int64_t* offset = scratch.take<int64_t>(k_tiles);
  for (int64_t t = 0; t < k_tiles; ++t) offset[t] = t * parts * 16 * kTileK;
  return {tiles, k_tiles * parts * 16 * kTileK, kTileK, 16 * kTileK, offset};
}

void bf16_block(const Ops& ops, const Bf16Rows& rows_of, int64_t m, int64_t rows, int64_t n, int64_t cols, const PackedWeight& w,
                uint16_t* unpacked, const FinishBlock& end) {
  const int64_t k_tiles = round_up(w.k(), kTileK) / kTileK;
  Bf16Block b{};
  b.a = rows_of.data + m / 16 * rows_of.block_stride, b.block_stride = rows_of.block_stride, b.tile_offset = rows_of.tile_offset;
  b.pitch = rows_of.pitch, b.parts = w.parts, b.part_stride = rows_of.part_stride, b.k_tiles = k_tiles;
  if (w.code_bits) {
    b.coded_bytes = k_tiles * (kPanelN + kTileK * w.code_bits * 4);
    b.coded = w.data.as<uint8_t>() + n / kPanelN * b.coded_bytes;
    b.code_bits = w.code_bits, b.code_table = w.code_table.data(), b.unpacked = unpacked;
  } else {
    b.b = w.data.as<uint16_t>() + n * k_tiles * kTileK;
  }
  b.m = rows, b.n = cols, b.end = end;
  ops.gemm_bf16(b);
}

// Rows per task when each task takes all columns; 0 if that leaves threads idle. The rows of a task in bf16 stay in the second-level
// cache while the weights stream by, so more rows mean less traffic. `values`: bf16 values of a row.
int64_t rows_per_task(int64_t M, int64_t values, int threads) {
  constexpr int64_t kCacheBytes = 768 << 10, kLeast = 64;
  const int64_t most = std::clamp<int64_t>(kCacheBytes / (2 * values) / 32 * 32, kLeast, 512);
  int64_t tasks = threads == 1 ? (M + most - 1) / most : round_up(std::max<int64_t>((M + most - 1) / most, 3 * threads), threads);
  if (M / tasks < kLeast) tasks = round_up(std::max<int64_t>(1, M / kLeast), threads);
  if (threads > 1 && M / tasks < kLeast / 2) return 0;
  return round_up((M + tasks - 1) / tasks, 32);
}

void gemm_bf16(const Exec& exec, const GemmInput& a, const Runs& runs, const PackedWeight& w, const Target& c) {
  const Ops& ops = exec.ops;
  const int threads = exec.threads.count();
  const int parts = w.parts;
  const int64_t K = w.k(), k_tiles = round_up(K, kTileK) / kTileK, N = round_up(w.n, kTileN);
  const bool shared = !a.tiles && runs.count > 1 && runs.segment % kTileK == 0 && a.row_stride > 0 && a.row_stride * 2 <= K;
  const bool stream = c.c && streams(*c.c, a.rows, w.n);
  const int64_t tall = rows_per_task(a.rows, K * parts, threads);
  const int64_t unpacked_room = w.code_bits ? k_tiles * kTileK * kPanelN : 0;
  uint16_t* unpacked = exec.scratch.take<uint16_t>(unpacked_room * threads);
  if (tall > 0 && !shared && !a.tiles) {
    const int64_t room = round_up(tall, 32) * k_tiles * parts * kTileK;
    uint16_t* tiles = exec.scratch.take<uint16_t>(room * threads);
    const Bf16Rows layout = gathered(exec.scratch, tiles, k_tiles, parts);
    exec.threads.parallel_for((a.rows + tall - 1) / tall, 1, [&](int64_t i, int64_t end, int worker) {
      for (; i < end; ++i) {
        const int64_t m = i * tall, rows = std::min(tall, a.rows - m);
        Bf16Rows mine = layout;
        mine.data = tiles + worker * room;
        gather_tiles(ops, a, runs, K, parts, m, rows, tiles + worker * room);
        bf16_block(ops, mine, 0, rows, 0, N, w, unpacked + worker * unpacked_room, end_of(c, m, rows, 0, w.n, stream));
      }
    });
    return;
  }
  Bf16Rows rows_of{};
  if (a.tiles) {
    rows_of = gathered(exec.scratch, a.tiles, k_tiles, 1);
  } else if (shared) {
    rows_of = round_shared(exec, a, runs, k_tiles, parts);
  } else {
    const int64_t blocks = (a.rows + 15) / 16;
    uint16_t* tiles = exec.scratch.take<uint16_t>(round_up(blocks, 2) * 16 * k_tiles * parts * kTileK);
    rows_of = gathered(exec.scratch, tiles, k_tiles, parts);
    exec.threads.parallel_for(blocks, std::max<int64_t>(1, 32768 / (16 * K)), [&](int64_t i, int64_t end, int) {
      gather_tiles(ops, a, runs, K, parts, i * 16, std::min(end * 16, a.rows) - i * 16, tiles + i * rows_of.block_stride);
    });
  }
  const Grid grid = tall > 0 ? Grid{a.rows, N, tall, N} : make_grid(a.rows, N, 32, kPanelN, 512, 65536, threads);
  exec.threads.parallel_for(grid.count(), 1, [&](int64_t i, int64_t end, int worker) {
    for (; i < end; ++i) {
      const int64_t m = i / grid.col_blocks() * grid.rows, n = i % grid.col_blocks() * grid.cols;
      const int64_t rows = std::min(grid.rows, a.rows - m), cols = std::min(grid.cols, N - n);
      bf16_block(ops, rows_of, m, rows, n, cols, w, unpacked + worker * unpacked_room, end_of(c, m, rows, n, std::min(cols, w.n - n), stream));
    }
  });
}

}  // namespace

namespace {

bool same_layout(const PackedWeight& a, const PackedWeight& b) {
  return a.ops == b.ops && a.compute == b.compute && a.parts == b.parts && a.n == b.n && a.segments == b.segments && a.segment == b.segment &&
         a.paired == b.paired;
}

PackedWeight pack(const Ops& ops, std::span<const RowSource> stacked, int64_t segments, Compute compute, bool gated, bool value_first, PackInto into) {
  PackedWeight p;
  p.compute = compute, p.segments = segments, p.ops = &ops;
  int64_t k = -1;
  for (const RowSource& w : stacked) {
    if (w.columns < 1 || (k >= 0 && w.columns != k) || segments < 1 || w.columns % segments != 0) {
      fail(ErrorKind::internal, "pack_weight: found a matrix of shape [{}, {}], wanted [N, {} * segment] like its fellows; fix the caller", w.rows, w.columns,
           segments);
    }
    k = w.columns, p.n += w.rows;
  }
  if (p.n < 1) fail(ErrorKind::internal, "pack_weight: found no rows, wanted at least one; fix the caller");
  p.segment = k / segments;
  p.parts = parts_of(ops, compute, stacked);
  p.value_first = value_first;
  p.paired = gated && p.parts > 0 && p.n % (2 * kTileN) == 0;
  if (same_layout(p, into.old)) p.data = std::move(into.old.data);
  else into.old = {};   // not both in memory
  BlockFormat f{};
  if (p.parts > 0 && block_format_of(compute, f)) pack_coded(f, stacked, p, into.threads);
  else if (p.parts > 0) pack_bf16(stacked, p, into.threads);
  else pack_f32(ops, stacked, p, into.threads);
  return p;
}

void check(const Exec& exec, const GemmInput& a, const PackedWeight& w, bool paired) {
  const int64_t count = std::max<int64_t>(1, static_cast<int64_t>(a.offsets.size()));
  if (count * a.segment != w.k() || w.ops != &exec.ops) {
    fail(ErrorKind::internal, "gemm: found {} runs of {} values and weights of K = {} packed for {}, wanted equal K and {}; fix the caller",
         count, a.segment, w.k(), w.ops ? w.ops->name : "nothing", exec.ops.name);
  }
  if (a.tiles && (w.parts != 1 || count != 1 || a.segment % kTileK != 0)) {
    fail(ErrorKind::internal, "gemm: found {} runs of {} values in tiles for weights of {} parts, wanted one run of whole tiles and one part; fix the caller",
         count, a.segment, w.parts);
  }
  if (w.paired != paired) fail(ErrorKind::internal, "gemm: found weights {}paired, wanted the other; fix the caller", w.paired ? "" : "not ");
}

}  // namespace

RowSource row_source(const View& w) {
  const int64_t columns = w.shape.size() == 2 ? w.shape[1] : -1;   // no matrix: pack says so
  const auto* data = static_cast<const char*>(w.data);
  return {w.shape.empty() ? 0 : w.shape[0], columns,
          [data, columns, type = w.dtype](int64_t first, int64_t n, float* out) {
            to_float32({data + first * columns * dtype_bytes(type), type, {n, columns}}, out);
          },
          w.dtype == DType::bf16};
}

PackedWeight pack_weight(const Ops& ops, std::span<const RowSource> stacked, int64_t segments, Compute compute, PackInto into) {
  return pack(ops, stacked, segments, compute, false, false, std::move(into));
}

PackedWeight pack_gated_weight(const Ops& ops, std::span<const RowSource> stacked, bool value_first, Compute compute, PackInto into) {
  return pack(ops, stacked, 1, compute, true, value_first, std::move(into));
}

PackedWeight pack_weight(const Ops& ops, const View& w, int64_t segments, Compute compute) {
  const RowSource source = row_source(w);
  return pack_weight(ops, std::span(&source, 1), segments, compute);
}

void gemm(const Exec& exec, const GemmInput& a, const PackedWeight& w, const GemmOutput& c) {
  check(exec, a, w, false);
  if (a.rows < 1) return;
  Arena::Scope scope(exec.scratch);
  const Runs runs = join_runs(exec.scratch, a);
  if (w.parts > 0) gemm_bf16(exec, a, runs, w, {&c, nullptr, nullptr});
  else gemm_f32(exec, a, runs, w, c);
}

void gemm_swiglu(const Exec& exec, const GemmInput& a, const PackedWeight& w, const float* bias, const Activations& y) {
  check(exec, a, w, w.paired);
  if (a.rows != y.rows || 2 * y.cols != w.n) {
    fail(ErrorKind::internal, "gemm_swiglu: found {} rows, weights of N = {} and a result [{}, {}], wanted equal rows and half of N; fix the caller",
         a.rows, w.n, y.rows, y.cols);
  }
  if (a.rows < 1) return;
  Arena::Scope scope(exec.scratch);
  if (!w.paired) {
    const Mat both{exec.scratch.take<float>(a.rows * w.n), a.rows, w.n, w.n};
    gemm(exec, a, w, {.data = both.data, .row_stride = both.stride, .bias = bias});
    return swiglu(exec, both, w.value_first, y);
  }
  float* paired_bias = bias ? exec.scratch.take<float>(w.n) : nullptr;
  for (int64_t j = 0; bias && j < w.n; j += kTileN) std::copy_n(bias + source_row(w, j), kTileN, paired_bias + j);
  gemm_bf16(exec, a, join_runs(exec.scratch, a), w, {nullptr, &y, paired_bias});
}

}  // namespace zt
