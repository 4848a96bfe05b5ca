// Register-tiled float32 product and the softmax of a block of its results. Needs kRows (rows of the register tile) and kVectors (its
// columns in vectors), chosen so that all sums stay in registers.

// Rows r, r + 1, r + 2 share a pointer, since x86 addresses reach base, base + stride and base + 2 stride.
template <int R, int V>
inline void f32_tile(const F32Block& p, const float* a, const float* b, float* c) {
  vf acc[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = vzero();
  }
  const int64_t stride = p.row_stride;
  int64_t k = p.k0, s = p.k0 / p.segment, at = p.k0 - s * p.segment;
  while (k < p.k1) {
    const float* x[(R + 2) / 3];
#pragma GCC unroll 6
    for (int g = 0; g < (R + 2) / 3; ++g) x[g] = a + p.offsets[s] + at + 3 * g * stride;
    int64_t run = p.segment - at;
    if (run > p.k1 - k) run = p.k1 - k;
    for (int64_t i = 0; i < run; ++i) {
      vf w[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) w[v] = vload(b + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const vf y = vset(x[r / 3][(r % 3) * stride]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) acc[r][v] = vfma(y, w[v], acc[r][v]);
      }
#pragma GCC unroll 6
      for (int g = 0; g < (R + 2) / 3; ++g) ++x[g];
      b += V * kLanes;
    }
    k += run, ++s, at = 0;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      float* at_c = c + r * p.ldc + v * kLanes;
      vstore(at_c, p.accumulate ? vadd(vload(at_c), acc[r][v]) : acc[r][v]);
    }
  }
}

template <int V, int R = kRows>
inline void f32_rows(const F32Block& p, int64_t rows, const float* a, const float* b, float* c) {
  if constexpr (R > 0) {
    if (rows == R) return f32_tile<R, V>(p, a, b, c);
    f32_rows<V, R - 1>(p, rows, a, b, c);
  }
}

template <int V = kVectors>
inline void f32_panel(const F32Block& p, int64_t width, int64_t rows, const float* a, const float* b, float* c) {
  if constexpr (V > 0) {
    if (width == V * kLanes) return f32_rows<V>(p, rows, a, b, c);
    f32_panel<V - 1>(p, width, rows, a, b, c);
  }
}

void gemm_f32(const F32Block& p) noexcept {
  constexpr int64_t cols = kVectors * kLanes;
  for (int64_t i = 0; i < p.m; i += kRows) {
    const int64_t rows = p.m - i < kRows ? p.m - i : kRows;
    for (int64_t j = 0; j < p.n; j += cols) {
      const int64_t width = p.n - j < cols ? p.n - j : cols;
      f32_panel(p, width, rows, p.a + i * p.row_stride, p.b + j * p.k + p.k0 * width, p.c + i * p.ldc + j);
    }
  }
}

void softmax(const SoftmaxBlock& p) noexcept {
  for (int64_t i = 0; i < p.m; ++i) {
    float* s = p.s + i * p.lds;
    const int64_t valid = p.first_valid >= p.n - i ? p.n : p.first_valid + i;
    int64_t j = 0;
    if (valid > 0) {
      vf top = vset(-__builtin_inff());
      for (; j + kLanes <= valid; j += kLanes) top = vmax(top, vload(s + j));
      float best = vmax_all(top);
      for (; j < valid; ++j) best = s[j] > best ? s[j] : best;
      best *= p.scale;
      best = p.top[i] > best ? p.top[i] : best;
      const vf scale = vset(p.scale), shift = vset(-best);
      vf sum = vzero();
      for (j = 0; j + kLanes <= valid; j += kLanes) {
        const vf w = vexp(vfma(vload(s + j), scale, shift));
        sum = vadd(sum, w);
        vstore(s + j, w);
      }
      float rest = 0;
      if (j < valid) {
        alignas(64) float w[kLanes];
        vstore(w, vexp(vfma(vload_n(s + j, valid - j), scale, shift)));
        for (int64_t t = 0; t < valid - j; ++t) rest += s[j + t] = w[t];
        j = valid;
      }
      alignas(64) float keep[kLanes];
      vstore(keep, vexp(vset(p.top[i] - best)));
      p.sum[i] = p.sum[i] * keep[0] + (vsum(sum) + rest);
      p.top[i] = best;
      if (keep[0] != 1.0f) {
        float* o = p.o + i * p.ldo;
        for (int64_t d = 0; d < p.d_pad; d += kLanes) vstore(o + d, vmul(vload(o + d), vset(keep[0])));
      }
    }
    for (; j < p.n_pad; ++j) s[j] = 0;
  }
}
