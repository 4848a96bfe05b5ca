// Attention of bf16 tiles: scores of 32 queries by a block of keys, softmax in float32, weights back to bf16, values.

constexpr int64_t kQueries = 32, kKeys = 768;
constexpr int64_t kScorePitch = kKeys + 16, kWeightPitch = kKeys + 32;   // off powers of two, which would share cache sets
constexpr int64_t kBoundedKeys = 256;                                    // of one block where scores are bounded; kKeys where not
constexpr int64_t kPart = 64, kPartPitch = kPart + 16;                  // keys whose scores stay in the first cache until they are weights
// Scores in units of log2 that are known to lie in [-kMostBound, kMostBound] need no largest one taken off: the weights 2^(score - bound) >= 2^-80 lose nothing in bf16.
constexpr float kMostBound = 40;

inline int64_t pad32(int64_t n) { return (n + 31) / 32 * 32; }

int64_t bf16_attention_scratch(int64_t d) noexcept {
  return kQueries * (pad32(d) * 2 + kScorePitch * 4 + kWeightPitch * 2 + pad32(d) * 4 + 18 * 4);
}

// 16 rows of 16 dwords, transposed.
inline void transpose_dwords(__m512i r[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
  }
}

template <bool kWhole = false>
inline __m512i load_bf16(const float* x, int64_t n) {   // 32 values, zero from n on; whole: all are there
  if constexpr (kWhole) return two_to_bf16(vload(x), vload(x + 16));
  return two_to_bf16(vload_n(x, n < 0 ? 0 : n), vload_n(x + 16, n < 16 ? 0 : n - 16));
}

// Two times 16 values as bf16, value i of both in dword i.
inline __m512i pairs_to_bf16(vf low, vf high) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), two_to_bf16(low, high));
}

inline float squares(const float* x, int64_t n) {
  vf sum = vzero();
  for (int64_t c = 0; c < n; c += 16) {
    const vf v = vload_n(x + c, n - c);
    sum = vfma(v, v, sum);
  }
  return vsum(sum);
}

// The larger one; NaN if there is one.
inline float larger(float a, float b) { return b > a || b != b ? b : a; }

// Keys j .. j + 15, and keys and values of rows and columns that may end within a tile, unless whole.
template <bool kWhole>
inline void pack_keys_16(const Bf16Keys& p, int64_t j, int64_t d_pad) {
  for (int64_t c = 0; c < d_pad; c += 32) {
    __m512i r[16];
    for (int i = 0; i < 16; ++i) {
      r[i] = kWhole || j + i < p.rows ? load_bf16<kWhole>(p.k + (j + i) * p.k_stride + c, p.d - c) : _mm512_setzero_si512();
    }
    transpose_dwords(r);
    uint16_t* out = p.k_tiles + (j * d_pad + c * 16);
    for (int i = 0; i < 16; ++i) _mm512_store_si512(out + i * 32, r[i]);
  }
}

// Values j .. j + 31. Row r of a tile holds keys r and r + 16 of its 32, the order in which weights come out.
template <bool kWhole>
inline void pack_values_32(const Bf16Keys& p, int64_t j, int64_t d_pad) {
  const int64_t rows_pad = pad32(p.rows);
  for (int64_t r = 0; r < 16; ++r)
    for (int64_t c = 0; c < d_pad; c += 16) {
      const float* x = p.v + (j + r) * p.v_stride + c;
      const int64_t n = p.d - c < 0 ? 0 : p.d - c;
      const vf a = kWhole ? vload(x) : j + r < p.rows ? vload_n(x, n) : vzero();
      const vf b = kWhole ? vload(x + 16 * p.v_stride) : j + r + 16 < p.rows ? vload_n(x + 16 * p.v_stride, n) : vzero();
      _mm512_store_si512(p.v_tiles + c / 32 * 32 * rows_pad + (j / 32 * 2 + c / 16 % 2) * kTile + r * 32, pairs_to_bf16(a, b));
    }
}

float bf16_pack_keys(const Bf16Keys& p) noexcept {
  const int64_t d_pad = pad32(p.d), end = pad32(p.last);
  float longest = 0;
  for (int64_t j = p.first; j < p.last; ++j) longest = larger(longest, squares(p.k + j * p.k_stride, p.d));
  for (int64_t j = p.first; j < end; j += 32) {
    if (p.d == d_pad && j + 32 <= p.rows) {
      pack_keys_16<true>(p, j, d_pad);
      pack_keys_16<true>(p, j + 16, d_pad);
      pack_values_32<true>(p, j, d_pad);
    } else {
      pack_keys_16<false>(p, j, d_pad);
      pack_keys_16<false>(p, j + 16, d_pad);
      pack_values_32<false>(p, j, d_pad);
    }
  }
  return longest;
}

// 2^x, relative error 3e-6: far below the 2^-8 of the weight's rounding. x <= 0 here, apart from NaN.
inline vf exp2_weight(vf x) {
  const vf f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);   // x - floor(x)
  vf p = vset(0.0135341678f);
  p = vfma(p, f, vset(0.0520114608f));
  p = vfma(p, f, vset(0.241442757f));
  p = vfma(p, f, vset(0.693003834f));
  p = vfma(p, f, vset(1.00000259f));
  return vscale2(p, x);                                                          // scales by 2^floor(x)
}

// All bits of the first n keys of 32 in the order of weights, in which keys i and i + 16 make a pair.
inline __m512i pairs_below(int64_t n) {
  return _mm512_or_si512(_mm512_maskz_set1_epi32(mask_of(n < 0 ? 0 : n), 0xFFFF), _mm512_maskz_set1_epi32(mask_of(n < 16 ? 0 : n - 16), int(0xFFFF0000)));
}

struct Softmax {
  float* score;        // [kQueries][kScorePitch]
  uint16_t* weight;    // [kQueries][kWeightPitch]
  float* o;            // [kQueries][d_pad]
  float* top;          // [kQueries] largest score so far, in units of log2, or a bound of all
  float* sum;          // [kQueries]
  float* lanes;        // [kQueries][16] of the sum, where scores are bounded
};

// Weights 2^(c s - top) of n scores into p, zero up to n_pad; their sum is added to sum0 and sum1.
inline void weigh(const float* s, uint16_t* p, int64_t n, int64_t n_pad, vf c, vf shift, vf& sum0, vf& sum1) {
  int64_t j = 0;
  for (; j + 32 <= n; j += 32) {
    const vf x = exp2_weight(vfma(vload(s + j), c, shift)), y = exp2_weight(vfma(vload(s + j + 16), c, shift));
    sum0 = vadd(sum0, x), sum1 = vadd(sum1, y);
    _mm512_store_si512(p + j, pairs_to_bf16(x, y));
  }
  for (; j < n_pad; j += 32) {
    const int64_t left = n - j;
    const vf x = vkeep(exp2_weight(vfma(vload(s + j), c, shift)), left < 0 ? 0 : left);
    const vf y = vkeep(exp2_weight(vfma(vload(s + j + 16), c, shift)), left < 16 ? 0 : left - 16);
    sum0 = vadd(sum0, x), sum1 = vadd(sum1, y);
    _mm512_store_si512(p + j, pairs_to_bf16(x, y));
  }
}

// Row i of a block of n_pad keys of which `valid` count.
inline void softmax_row(const Softmax& w, int64_t i, int64_t valid, int64_t n_pad, float scale, int64_t d_pad) {
  const float* s = w.score + i * kScorePitch;
  vf a = vset(-__builtin_inff()), b = a;
  int64_t j = 0;
  for (; j + 32 <= valid; j += 32) a = vmax(a, vload(s + j)), b = vmax(b, vload(s + j + 16));
  for (; j < valid; j += 16) a = _mm512_mask_max_ps(a, mask_of(valid - j), a, vload(s + j));
  float top = vmax_all(vmax(a, b)) * scale;
  if (top < w.top[i]) top = w.top[i];
  vf sum0 = vzero(), sum1 = vzero();
  weigh(s, w.weight + i * kWeightPitch, valid, n_pad, vset(scale), vset(-top), sum0, sum1);
  const vf keep = exp2_weight(vset(w.top[i] - top));
  w.sum[i] = w.sum[i] * _mm512_cvtss_f32(keep) + vsum(vadd(sum0, sum1));
  if (w.top[i] != top) {
    float* o = w.o + i * d_pad;
    for (int64_t d = 0; d < d_pad; d += 16) vstore(o + d, vmul(vload(o + d), keep));
    w.top[i] = top;
  }
}

// 128 (f - (2^f - 1)) for f = i / 64 .. (i + 1) / 64: what a bf16's mantissa falls short of the fraction of its logarithm.
alignas(64) constexpr uint8_t kShortfall[64] = {0, 1, 1, 2, 2, 3, 4, 4, 5, 5, 5, 6, 6, 7, 7, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10, 10, 11, 11, 11, 11, 11,
                                                11, 11, 11, 11, 11, 11, 11, 11, 11, 10, 10, 10, 10, 10, 9, 9, 9, 8, 8, 8, 7, 7, 6, 6, 5, 5, 4, 3, 3, 2, 1, 1};

// Weights 2^x for x in [-2 kMostBound, 0] as bf16, straight from x as an integer of 1/128: its whole part is the exponent and its
// fraction, less a table's value, the mantissa. Relative error 0.23 % (root mean square; rounding alone has 0.17 %), mean 0.03 %, and
// sums are of these very weights. Of 32 scores, x = c s + shift in that unit; in the order of weights.
inline __m512i bounded_32(const float* s, vf c, vf shift, __m512i shortfall) {
  const __m512i x = _mm512_castps_si512(vfma(vload(s), c, shift)), y = _mm512_castps_si512(vfma(vload(s + 16), c, shift));
  const __m512i log = _mm512_ternarylogic_epi32(_mm512_set1_epi32(0xFFFF), x, _mm512_slli_epi32(y, 16), 0xCA);   // low halves of x, the rest of y
  return _mm512_sub_epi16(log, _mm512_maskz_permutexvar_epi8(0x5555555555555555, _mm512_srli_epi16(log, 1), shortfall));
}

// Of rows 0 .. m of scores below `bound`: weights of n keys, zero up to n_pad, into columns `column` ... of w.weight; their sums into w.lanes.
inline void bounded_weights(const Softmax& w, int64_t column, int64_t m, int64_t n, int64_t n_pad, float scale, float bound) {
  constexpr float kWhole = 12582912;   // 1.5 * 2^23: added, it leaves the rounded integer in the low bits
  const __m512i shortfall = _mm512_load_si512(kShortfall);
  const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3F80);
  const vf c = vset(scale * 128), shift = vset(kWhole + (127 - bound) * 128);
  const float* s = w.score;
  uint16_t* p = w.weight + column;
  float *lanes = w.lanes, *end = lanes + m * 16;
  if (n == kPart) {
    for (; lanes != end; s += kPartPitch, p += kWeightPitch, lanes += 16) {
      const __m512i first = bounded_32(s, c, shift, shortfall), second = bounded_32(s + 32, c, shift, shortfall);
      _mm512_store_si512(p, first);
      _mm512_store_si512(p + 32, second);
      vstore(lanes, _mm512_dpbf16_ps(_mm512_dpbf16_ps(vload(lanes), (__m512bh)first, ones), (__m512bh)second, ones));
    }
    return;
  }
  for (; lanes != end; s += kPartPitch, p += kWeightPitch, lanes += 16)
    for (int64_t j = 0; j < n_pad; j += 32) {
      const __m512i weight = _mm512_and_si512(bounded_32(s + j, c, shift, shortfall), pairs_below(n - j));
      _mm512_store_si512(p + j, weight);
      vstore(lanes, _mm512_dpbf16_ps(vload(lanes), (__m512bh)weight, ones));
    }
}

// Scores [16 R, n_pad] of the queries in tiles [R * 16][d_pad]. Column j .. j + 31 is key at[j / 32] of all.
template <int R>
inline void score_block(const uint16_t* q, const uint16_t* k, const int64_t* at, int64_t d_pad, int64_t n_pad, float* s, int64_t pitch) {
  memory_fence();
  for (int64_t j = 0; j < n_pad; j += 32) {
    const uint16_t* b = k + at[j / 32] * d_pad;
    _tile_zero(0);
    _tile_zero(1);
    if constexpr (R > 1) {
      _tile_zero(2);
      _tile_zero(3);
    }
    for (int64_t c = 0; c < d_pad; c += 32, b += kTile) {
      _tile_loadd(6, b, 64);
      _tile_loadd(4, q + c, d_pad * 2);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + 16 * d_pad, 64);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (R > 1) {
        _tile_loadd(5, q + 16 * d_pad + c, d_pad * 2);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    }
    _tile_stored(0, s + j, pitch * 4);
    _tile_stored(1, s + j + 16, pitch * 4);
    if constexpr (R > 1) {
      _tile_stored(2, s + 16 * pitch + j, pitch * 4);
      _tile_stored(3, s + 16 * pitch + j + 16, pitch * 4);
    }
  }
}

// o += weights * v over n_pad of all rows_pad keys, as score_block has them.
template <int R>
inline void value_block(const uint16_t* p, const uint16_t* v, const int64_t* at, int64_t rows_pad, int64_t d_pad, int64_t n_pad, float* o) {
  memory_fence();
  for (int64_t c = 0; c < d_pad; c += 32) {
    const uint16_t* values = v + c * rows_pad;
    _tile_loadd(0, o + c, d_pad * 4);
    _tile_loadd(1, o + c + 16, d_pad * 4);
    if constexpr (R > 1) {
      _tile_loadd(2, o + 16 * d_pad + c, d_pad * 4);
      _tile_loadd(3, o + 16 * d_pad + c + 16, d_pad * 4);
    }
    for (int64_t j = 0; j < n_pad; j += 32) {
      const uint16_t* b = values + at[j / 32] * 32;
      _tile_loadd(6, b, 64);
      _tile_loadd(4, p + j, kWeightPitch * 2);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, b + kTile, 64);
      _tile_dpbf16ps(1, 4, 7);
      if constexpr (R > 1) {
        _tile_loadd(5, p + 16 * kWeightPitch + j, kWeightPitch * 2);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
      }
    }
    _tile_stored(0, o + c, d_pad * 4);
    _tile_stored(1, o + c + 16, d_pad * 4);
    if constexpr (R > 1) {
      _tile_stored(2, o + 16 * d_pad + c, d_pad * 4);
      _tile_stored(3, o + 16 * d_pad + c + 16, d_pad * 4);
    }
  }
}

// Up to 16 columns of a head, from column c on, into the tiles of the result.
inline void store_in_tiles(const Bf16Attention& p, int64_t i, int64_t c, vf v) {
  if (p.d % 16 == 0) {
    _mm256_store_si256((__m256i*)tile_at(p.o_tiles, p.o_cols, p.o_row + i, p.o_col + c), to_bf16_16(v));
    return;
  }
  alignas(32) uint16_t part[16];
  _mm256_store_si256((__m256i*)part, to_bf16_16(v));
  for (int64_t j = 0; j < 16 && c + j < p.d; ++j) *tile_at(p.o_tiles, p.o_cols, p.o_row + i, p.o_col + c + j) = part[j];
}

template <int R>
inline void attend(const Bf16Attention& p) {
  const int64_t d_pad = pad32(p.d), m = p.m;
  char* room = static_cast<char*>(p.scratch);
  auto take = [&](int64_t bytes) { return room += bytes, room - bytes; };
  uint16_t* q = reinterpret_cast<uint16_t*>(take(kQueries * d_pad * 2));
  Softmax w;
  w.score = reinterpret_cast<float*>(take(kQueries * kScorePitch * 4));
  w.weight = reinterpret_cast<uint16_t*>(take(kQueries * kWeightPitch * 2));
  w.o = reinterpret_cast<float*>(take(kQueries * d_pad * 4));
  w.top = reinterpret_cast<float*>(take(kQueries * 4));
  w.sum = reinterpret_cast<float*>(take(kQueries * 4));
  w.lanes = reinterpret_cast<float*>(take(kQueries * 64));
  const float scale = p.scale * 1.44269504f, slack = 1.02f;   // of two roundings to bf16
  const bool all = p.first_valid >= p.rows;
  float most = 0;
  for (int64_t i = 0; i < 16 * R; ++i) {
    for (int64_t c = 0; c < d_pad; c += 32) {
      _mm512_store_si512(q + i * d_pad + c, i < m ? load_bf16(p.q + i * p.q_stride + c, p.d - c) : _mm512_setzero_si512());
    }
    for (int64_t c = 0; c < d_pad; c += 16) vstore(w.o + i * d_pad + c, vzero());
    w.top[i] = -__builtin_inff(), w.sum[i] = 0;
    if (i < m) most = larger(most, squares(p.q + i * p.q_stride, p.d));
  }
  const float bound = slack * scale * __builtin_sqrtf(most * p.longest_key);   // |q . k| <= |q| |k|
  const bool bounded = all && bound >= 0 && bound <= kMostBound;
  if (bounded)
    for (int64_t i = 0; i < m; ++i) w.top[i] = bound, vstore(w.lanes + i * 16, vzero());
  int64_t visible = p.rows, at[kKeys / 32];
  if (p.key_blocks) {   // the last of all keys is in the last block, if in any
    const int64_t last = p.key_blocks[p.key_block_count - 1] * p.key_block;
    visible = (p.key_block_count - 1) * p.key_block + (p.rows - last < p.key_block ? p.rows - last : p.key_block);
  }
  if (!all && p.first_valid + m - 1 < visible) visible = p.first_valid + m - 1;
  const int64_t step = bounded ? kBoundedKeys : kKeys;
  for (int64_t j = 0; j < visible; j += step) {
    const int64_t n = visible - j < step ? visible - j : step, n_pad = pad32(n);
    for (int64_t t = 0; t < n_pad / 32; ++t) {
      const int64_t key = j + t * 32;
      at[t] = p.key_blocks ? p.key_blocks[key / p.key_block] * p.key_block + key % p.key_block : key;
    }
    if (bounded)
      for (int64_t c = 0; c < n_pad; c += kPart) {
        const int64_t part = n_pad - c < kPart ? n_pad - c : kPart;
        score_block<R>(q, p.k_tiles, at + c / 32, d_pad, part, w.score, kPartPitch);
        bounded_weights(w, c, m, n - c < part ? n - c : part, part, scale, bound);
      }
    else
      score_block<R>(q, p.k_tiles, at, d_pad, n_pad, w.score, kScorePitch);
    for (int64_t i = 0; !bounded && i < m; ++i) {
      int64_t valid = all ? n : p.first_valid + i - j;
      if (valid > n) valid = n;
      if (valid > 0) {
        softmax_row(w, i, valid, n_pad, scale, d_pad);
      } else {
        for (int64_t c = 0; c < n_pad; c += 32) _mm512_store_si512(w.weight + i * kWeightPitch + c, _mm512_setzero_si512());
      }
    }
    value_block<R>(w.weight, p.v_tiles, at, pad32(p.rows), d_pad, n_pad, w.o);
  }
  for (int64_t i = 0; i < m; ++i) {
    if (bounded) w.sum[i] = vsum(vload(w.lanes + i * 16));
    const vf r = vset(w.sum[i] == 0 ? 0.0f : 1.0f / w.sum[i]);   // no visible key: zeros
    for (int64_t c = 0; c < p.d; c += 16) {
      const vf v = vmul(vload(w.o + i * d_pad + c), r);
      if (p.o_tiles) store_in_tiles(p, i, c, v);
      else vstore_n(p.o + i * p.o_stride + c, p.d - c, v);
    }
  }
}

void bf16_attention(const Bf16Attention& p) noexcept {
  configure_tiles();
  if (p.m > 16) attend<2>(p);
  else attend<1>(p);
  _tile_release();
}
