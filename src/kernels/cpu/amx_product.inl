// Products of bf16 tiles: 16 rows of 32 values times 16 pairs of 16 columns, sums in float32.

constexpr int64_t kTile = 16 * 32;   // values of a tile: 1 KiB

// The tile intrinsics of g++ 12 do not say which memory they read: what was stored before must really be stored.
inline void memory_fence() { __asm__ volatile("" ::: "memory"); }

// All eight tile registers as 16 rows of 64 bytes.
inline void configure_tiles() {
  struct alignas(64) Config {
    uint8_t palette, start_row, reserved[14];
    uint16_t column_bytes[16];
    uint8_t rows[16];
  } c{};
  c.palette = 1;
  for (int i = 0; i < 8; ++i) c.column_bytes[i] = 64, c.rows[i] = 16;
  __asm__ volatile("" ::"r"(&c) : "memory");
  _tile_loadconfig(&c);
}

inline __m512i two_to_bf16(vf low, vf high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

// Takes the next bf16 part off 32 values: what is left behind is exact.
inline __m512i take_bf16(vf& low, vf& high) {
  const __m512i part = two_to_bf16(low, high);
  low = vsub(low, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(part)), 16)));
  high = vsub(high, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(part, 1)), 16)));
  return part;
}

void to_bf16(const float* x, int64_t n, int parts, int64_t part_stride, uint16_t* out) noexcept {
  for (int64_t j = 0; j < n; j += 32) {
    vf low = vload_n(x + j, n - j), high = n - j > 16 ? vload_n(x + j + 16, n - j - 16) : vzero();
    const __mmask32 mask = n - j < 32 ? __mmask32((uint64_t{1} << (n - j)) - 1) : ~__mmask32{0};
    for (int part = 0; part < parts; ++part) {
      const __m512i v = part + 1 < parts ? take_bf16(low, high) : two_to_bf16(low, high);
      _mm512_mask_storeu_epi16(out + part * part_stride + j, mask, v);
    }
  }
}

template <int P>
inline void store_parts(vf low, vf high, uint16_t* out) {
#pragma GCC unroll 3
  for (int part = 0; part + 1 < P; ++part) _mm512_store_si512(out + part * kTile, take_bf16(low, high));
  _mm512_store_si512(out + (P - 1) * kTile, two_to_bf16(low, high));
}

// One row of A into the rows `out`, `out + kTile`, ... of consecutive tiles, P parts of each.
template <int P>
inline void row_to_tiles(const F32Block& p, const float* a, uint16_t* out) {
  int64_t s = 0, at = 0;
  for (int64_t k = 0; k < p.k; k += 32, out += P * kTile) {
    if (at + 32 <= p.segment) {
      const float* x = a + p.offsets[s] + at;
      store_parts<P>(vload(x), vload(x + 16), out);
      if ((at += 32) == p.segment) at = 0, ++s;
      continue;
    }
    alignas(64) float part[32];
    const int64_t n = p.k - k < 32 ? p.k - k : 32;
    int64_t have = 0;
    while (have < n) {
      int64_t run = p.segment - at;
      if (run > n - have) run = n - have;
      const float* x = a + p.offsets[s] + at;
      for (int64_t i = 0; i < run; i += kLanes) vstore_n(part + have + i, run - i, vload_n(x + i, run - i));
      have += run, at += run;
      if (at == p.segment) at = 0, ++s;
    }
    for (; have < 32; ++have) part[have] = 0;
    store_parts<P>(vload(part), vload(part + 16), out);
  }
}

template <int P>
inline void rows_to_tiles(const F32Block& p, uint16_t* out) {
  for (int64_t i = 0; i < p.m; ++i) row_to_tiles<P>(p, p.a + i * p.row_stride, out + i * 32);
  for (int64_t i = p.m; i < 16; ++i) {
    for (int64_t t = 0; t < (p.k + 31) / 32 * P; ++t) _mm512_store_si512(out + t * kTile + i * 32, _mm512_setzero_si512());
  }
}

void to_bf16_tiles(const F32Block& p, int parts, uint16_t* out) noexcept {
  if (parts == 1) rows_to_tiles<1>(p, out);
  else if (parts == 2) rows_to_tiles<2>(p, out);
  else rows_to_tiles<3>(p, out);
}

inline __m256i to_bf16_16(vf v) { return (__m256i)_mm512_cvtneps_pbh(v); }

// Row r and column c of bf16 tiles with `cols` columns.
inline uint16_t* tile_at(uint16_t* tiles, int64_t cols, int64_t r, int64_t c) {
  return tiles + (r / 16 * (cols / 32) + c / 32) * kTile + r % 16 * 32 + c % 32;
}

// value * silu(gate) of the pairs in the 32 x 32 sums at (i, j) of a block.
inline void finish_pairs(const FinishBlock& f, int64_t i, int64_t j) {
  const vf value_bias = f.bias ? vload(f.bias + j) : vzero(), gate_bias = f.bias ? vload(f.bias + j + 16) : vzero();
  for (int64_t r = 0; r < f.m; ++r) {
    const vf value = vadd(vload(f.acc + r * 32), value_bias), gate = vadd(vload(f.acc + r * 32 + 16), gate_bias);
    const vf y = vmul(value, vsilu(gate));
    if (f.tiles) _mm256_store_si256((__m256i*)tile_at(f.tiles, f.tile_cols, f.tile_row + i + r, f.tile_col + j / 2), to_bf16_16(y));
    else vstore(f.c + (i + r) * f.ldc + j / 2, y);
  }
}

// Ends the 32 x 32 sums at (i, j) of a block.
inline void finish_tile(const Bf16Block& p, int64_t i, int64_t j, const float* acc) {
  FinishBlock f = p.end;
  f.acc = acc, f.ldacc = 32;
  f.m = p.m - i < 32 ? p.m - i : 32;
  f.n = p.end.n - j < 32 ? p.end.n - j : 32;
  if (f.paired) return finish_pairs(f, i, j);
  f.c += i * f.ldc + j;
  if (f.bias) f.bias += j;
  if (f.gate) f.gate += j;
  if (f.gate_row) f.gate_row += i;
  finish_unfenced(f);
}

// R x V tiles of C, at most 2 x 2: the four sums, two tiles of A and two of B fill the eight registers. `ahead` is what comes next
// in B, brought nearer by `step` bytes for each tile along k. The parts of A go from the least to the greatest.
template <int P, int R, int V>
inline void bf16_tiles(const Bf16Block& p, const uint16_t* a, const uint16_t* b, float* acc, const char* ahead, int64_t step) {
  const int64_t pitch = p.pitch * 2, part_stride = p.part_stride, k_tiles = p.k_tiles, block_stride = p.block_stride;
  const int64_t* tile_offset = p.tile_offset;
  _tile_zero(0);
  if constexpr (V > 1) _tile_zero(1);
  if constexpr (R > 1) _tile_zero(2);
  if constexpr (R > 1 && V > 1) _tile_zero(3);
  for (int64_t t = 0; t < k_tiles; ++t, b += V * kTile) {
    const uint16_t* x = a + tile_offset[t] + (P - 1) * part_stride;
    _tile_loadd(6, b, 64);
#pragma GCC unroll 3
    for (int part = 0; part < P; ++part, x -= part_stride) {
      _tile_loadd(4, x, pitch);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (V > 1) {
        if (part == 0) _tile_loadd(7, b + kTile, 64);
        _tile_dpbf16ps(1, 4, 7);
      }
      if constexpr (R > 1) {
        _tile_loadd(5, x + block_stride, pitch);
        _tile_dpbf16ps(2, 5, 6);
        if constexpr (V > 1) _tile_dpbf16ps(3, 5, 7);
      }
    }
    for (const char* end = ahead + step; ahead < end; ahead += 64) _mm_prefetch(ahead, _MM_HINT_T1);
  }
  _tile_stored(0, acc, 128);
  if constexpr (V > 1) _tile_stored(1, acc + 16, 128);
  if constexpr (R > 1) _tile_stored(2, acc + 16 * 32, 128);
  if constexpr (R > 1 && V > 1) _tile_stored(3, acc + 16 * 32 + 16, 128);
}

#include "kernels/cpu/amx_unpack.inl"

template <int P>
inline void bf16_product(const Bf16Block& p) {
  memory_fence();
  configure_tiles();
  // Stores of tiles straight into rows of C lose: they miss the cache in pieces of 64 bytes that nothing prefetches.
  alignas(64) float acc[32 * 32];
  // While the rows of A pass over one panel of B, the next panel comes into the second-level cache, a share with each row block.
  const int64_t row_blocks = (p.m + 31) / 32, step = ((2 * kTile * 2 + row_blocks - 1) / row_blocks + 63) / 64 * 64;
  for (int64_t j = 0; j < p.n; j += 32) {
    const uint16_t* b = p.coded ? p.unpacked : p.b + j * p.k_tiles * 32;
    if (p.coded) {
      unpack_weights(p, p.coded + j / 32 * p.coded_bytes, p.n - j > 16 ? 2 : 1);
      memory_fence();
    }
    const char* next = reinterpret_cast<const char*>(b + p.k_tiles * 2 * kTile);
    const int64_t ahead = !p.coded && j + 64 <= p.n ? step : 0;
    for (int64_t i = 0; i < p.m; i += 32, next += ahead * p.k_tiles) {
      const uint16_t* a = p.a + i / 16 * p.block_stride;
      const bool tall = p.m - i > 16, wide = p.n - j > 16;
      if (tall && wide) bf16_tiles<P, 2, 2>(p, a, b, acc, next, ahead);
      else if (tall) bf16_tiles<P, 2, 1>(p, a, b, acc, next, 0);
      else if (wide) bf16_tiles<P, 1, 2>(p, a, b, acc, next, ahead);
      else bf16_tiles<P, 1, 1>(p, a, b, acc, next, 0);
      finish_tile(p, i, j, acc);
    }
  }
  _mm_sfence();
  _tile_release();
}

void gemm_bf16(const Bf16Block& p) noexcept {
  if (p.parts == 1) bf16_product<1>(p);
  else if (p.parts == 2) bf16_product<2>(p);
  else bf16_product<3>(p);
}
