// Row operations over float lanes.

// Calls f(column, lanes left) over a row; lanes past the end are masked by the loads and stores.
#define ZT_COLUMNS(j, cols) for (int64_t j = 0; j < (cols); j += kLanes)

// 1 / sqrt(mean(x^2) + eps) of one row.
inline float inverse_rms(const float* x, int64_t cols, float eps) {
  vf s[4] = {vzero(), vzero(), vzero(), vzero()};
  int64_t j = 0;
  for (; j + 4 * kLanes <= cols; j += 4 * kLanes) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      const vf v = vload(x + j + u * kLanes);
      s[u] = vfma(v, v, s[u]);
    }
  }
  for (; j < cols; j += kLanes) {
    const vf v = vload_n(x + j, cols - j);
    s[0] = vfma(v, v, s[0]);
  }
  const float mean = vsum(vadd(vadd(s[0], s[1]), vadd(s[2], s[3]))) / float(cols);
  return 1.0f / __builtin_sqrtf(mean + eps);
}

void rms_norm(const NormRows& p) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    const vf r = vset(inverse_rms(x, p.cols, p.eps));
    ZT_COLUMNS(j, p.cols) {
      const int64_t n = p.cols - j;
      vf v = vmul(vload_n(x + j, n), r);
      if (p.weight) v = vmul(v, vload_n(p.weight + j, n));
      vstore_n(y + j, n, v);
    }
  }
}

void rms_norm_modulate(const NormRows& p) noexcept {
  const vf one = vset(1.0f);
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    const float* scale = p.scale + p.table_row[i] * p.stride;
    const float* shift = p.shift + p.table_row[i] * p.stride;
    const vf r = vset(inverse_rms(x, p.cols, p.eps));
    ZT_COLUMNS(j, p.cols) {
      const int64_t n = p.cols - j;
      vf v = vmul(vload_n(x + j, n), r);
      if (p.weight) v = vmul(v, vload_n(p.weight + j, n));
      vstore_n(y + j, n, vfma(v, vadd(one, vload_n(scale + j, n)), vload_n(shift + j, n)));
    }
  }
}

void layer_norm(const NormRows& p) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    vf s = vzero();
    ZT_COLUMNS(j, p.cols) s = vadd(s, vload_n(x + j, p.cols - j));
    const float mean = vsum(s) / float(p.cols);
    const vf m = vset(mean);
    vf q = vzero();
    ZT_COLUMNS(j, p.cols) {
      const int64_t n = p.cols - j;
      const vf d = vsub(vload_n(x + j, n), vkeep(m, n));
      q = vfma(d, d, q);
    }
    const vf r = vset(1.0f / __builtin_sqrtf(vsum(q) / float(p.cols) + p.eps));
    ZT_COLUMNS(j, p.cols) {
      const int64_t n = p.cols - j;
      vf v = vmul(vsub(vload_n(x + j, n), m), r);
      if (p.weight) v = vmul(v, vload_n(p.weight + j, n));
      if (p.bias) v = vadd(v, vload_n(p.bias + j, n));
      vstore_n(y + j, n, v);
    }
  }
}

inline void rope_head(float* x, const float* cosine, const float* sine, int64_t half) {
  ZT_COLUMNS(j, half) {
    const int64_t n = half - j;
    const vf a = vload_n(x + j, n), b = vload_n(x + half + j, n);
    const vf c = vload_n(cosine + j, n), s = vload_n(sine + j, n);
    vstore_n(x + j, n, vfnma(b, s, vmul(a, c)));
    vstore_n(x + half + j, n, vfma(a, s, vmul(b, c)));
  }
}

void head_norm_rope(const RopeRows& p) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t h = 0; h < p.heads; ++h) {
      float* x = p.x + i * p.stride + h * p.head_dim;
      if (p.eps > 0) {
        const vf r = vset(inverse_rms(x, p.head_dim, p.eps));
        ZT_COLUMNS(j, p.head_dim) {
          const int64_t n = p.head_dim - j;
          vf v = vmul(vload_n(x + j, n), r);
          if (p.weight) v = vmul(v, vload_n(p.weight + j, n));
          vstore_n(x + j, n, v);
        }
      }
      if (p.cosine) rope_head(x, p.cosine + i * p.half, p.sine + i * p.half, p.half);
    }
  }
}

void swiglu(const MapRows& p, bool value_first) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* value = p.x + i * p.x_stride + (value_first ? 0 : p.cols);
    const float* gate = p.x + i * p.x_stride + (value_first ? p.cols : 0);
    float* y = p.y + i * p.y_stride;
    ZT_COLUMNS(j, p.cols) {
      const int64_t n = p.cols - j;
      vstore_n(y + j, n, vmul(vload_n(value + j, n), vsilu(vload_n(gate + j, n))));
    }
  }
}

template <int kActivation>
void activate_rows(const MapRows& p) {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    ZT_COLUMNS(j, p.cols) vstore_n(y + j, p.cols - j, vactivate(vload_n(x + j, p.cols - j), kActivation));
  }
}

void activation(const MapRows& p, int kind) noexcept {
  switch (kind) {
    case 1: return activate_rows<1>(p);
    case 2: return activate_rows<2>(p);
    case 3: return activate_rows<3>(p);
    default: return activate_rows<0>(p);
  }
}

void add_scaled(const MapRows& p) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    ZT_COLUMNS(j, p.cols) {
      const int64_t n = p.cols - j;
      const vf v = vload_n(x + j, n), old = vload_n(y + j, n);
      vstore_n(y + j, n, p.a ? vfma(v, vload_n(p.a + j, n), old) : vadd(v, old));
    }
  }
}

void affine(const MapRows& p, bool with_silu) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    ZT_COLUMNS(j, p.cols) {
      const int64_t n = p.cols - j;
      const vf v = vfma(vload_n(x + j, n), vload_n(p.a + j, n), vload_n(p.b + j, n));
      vstore_n(y + j, n, with_silu ? vsilu(v) : v);
    }
  }
}

void column_stats(const ColumnStats& p) noexcept {
  const vf inverse = vset(1.0f / float(p.rows));
  ZT_COLUMNS(j, p.cols) {
    const int64_t n = p.cols - j;
    vf s = vzero(), q = vzero();
    for (int64_t i = 0; i < p.rows; ++i) s = vadd(s, vload_n(p.x + i * p.x_stride + j, n));
    const vf mean = vmul(s, inverse);
    for (int64_t i = 0; i < p.rows; ++i) {
      const vf d = vsub(vload_n(p.x + i * p.x_stride + j, n), mean);
      q = vfma(d, d, q);
    }
    vstore_n(p.mean + j, n, mean);
    vstore_n(p.m2 + j, n, q);
  }
}

bool all_finite(const float* x, int64_t n) noexcept {
  int64_t j = 0;
  for (; j + 4 * kLanes <= n; j += 4 * kLanes) {
    // A sum of magnitudes would overflow; 0 * x is NaN exactly for infinities and NaN.
    vf bad = vzero();
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) bad = vfma(vload(x + j + u * kLanes), vzero(), bad);
    if (!vall_finite(bad)) return false;
  }
  for (; j < n; j += kLanes) {
    if (!vall_finite(vload_n(x + j, n - j))) return false;
  }
  return true;
}

bool planes_to_rgb(const RgbPixels& p) noexcept {
  const vf zero = vzero(), one = vset(1.0f), most = vset(255.0f), whole = vset(12582912.0f);   // 1.5 * 2^23: added, it leaves the integer in the low bits
  vf bad = zero;
  ZT_COLUMNS(j, p.n) {
    vf v[3];
#pragma GCC unroll 3
    for (int c = 0; c < 3; ++c) {
      const vf x = vload_n(p.x + c * p.plane + j, p.n - j);
      bad = vfma(x, zero, bad);
      v[c] = vadd(vmul(vmin(vmax(vadd(vmul(x, vset(p.scale[c])), vset(p.shift[c])), zero), one), most), whole);
    }
    vstore_rgb(p.rgb + 3 * j, p.n - j, v[0], v[1], v[2]);
  }
  return vall_finite(bad);
}

void snake(const MapRows& p) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    ZT_COLUMNS(j, p.cols) {
      const int64_t n = p.cols - j;
      const vf v = vload_n(x + j, n);
      vstore_n(y + j, n, vfma(vsin2(vmul(v, vload_n(p.a + j, n))), vload_n(p.b + j, n), v));
    }
  }
}

inline void copy_floats(float* to, const float* from, int64_t n) {
  ZT_COLUMNS(j, n) vstore_n(to + j, n - j, vload_n(from + j, n - j));
}

// Everything runs over the flat index time * channels + channel, so that few channels cost no lanes: a filter tap is a shift by
// `channels`. With f the up filter times 2 and g the down filter, E and O the even and odd samples of the doubled rate:
//   E[t] = snake(sum_q f[2q + 1] x[t + 2 - q]),  O[t] = snake(sum_q f[2q] x[t + 3 - q]),  q = 0 .. 5
//   y[t] = sum_q g[2q + 1] E[t + q - 2] + g[2q] O[t + q - 3]
// x is replicated past its ends; E and O past theirs, where both take the first even or the last odd sample.
void snake_anti_aliased(const SnakeTile& p) noexcept {
  const int64_t C = p.channels, n = p.t1 - p.t0, wide = (n + 6) * C;
  float* x = p.scratch;                 // rows t0 - 6 .. t1 + 5
  float* even = x + (n + 12) * C + 16;  // rows t0 - 3 .. t1 + 2
  float* odd = even + wide + 16;
  // Dense rows inside the signal are one run; the others go one by one.
  const int64_t first = p.x_stride == C ? (p.t0 < 6 ? 0 : p.t0 - 6) : p.total, last = p.t1 + 6 < p.total ? p.t1 + 6 : p.total;
  if (first < last) copy_floats(x + (first - p.t0 + 6) * C, p.x + first * C, (last - first) * C);
  for (int64_t i = 0; i < n + 12; ++i) {
    int64_t t = p.t0 - 6 + i;
    if (t >= first && t < last) continue;
    t = t < 0 ? 0 : t >= p.total ? p.total - 1 : t;
    copy_floats(x + i * C, p.x + t * p.x_stride, C);
  }
  vf f[12], g[12];
  for (int q = 0; q < 12; ++q) f[q] = vset(2.0f * p.up[q]), g[q] = vset(p.down[q]);
  for (int64_t i = 0, c = 0; i < wide; i += kLanes) {
    vf e = vzero(), o = vzero();
#pragma GCC unroll 6
    for (int r = 0; r < 6; ++r) {       // q = 5 - r
      e = vfma(f[11 - 2 * r], vload(x + i + r * C), e);
      o = vfma(f[10 - 2 * r], vload(x + i + (r + 1) * C), o);
    }
    const vf alpha = vload(p.alpha + c), inverse = vload(p.inverse_beta + c);
    vstore(even + i, vfma(vsin2(vmul(e, alpha)), inverse, e));
    vstore(odd + i, vfma(vsin2(vmul(o, alpha)), inverse, o));
    for (c += kLanes; c >= C;) c -= C;
  }
  for (int64_t j = 0; j < n + 6; ++j) {
    const int64_t t = p.t0 - 3 + j;
    if (t >= 0 && t < p.total) continue;
    // The nearest real sample is inside this tile: t0 and t1 - 1 are real rows.
    const float* edge = t < 0 ? even + (3 - p.t0) * C : odd + (p.total - 1 - p.t0 + 3) * C;
    copy_floats(even + j * C, edge, C);
    copy_floats(odd + j * C, edge, C);
  }
  for (int64_t i = 0, t = p.t0, c = 0; i < n * C; i += kLanes) {
    vf y = vzero();
#pragma GCC unroll 6
    for (int q = 0; q < 6; ++q) {
      y = vfma(g[2 * q + 1], vload(even + i + (q + 1) * C), y);
      y = vfma(g[2 * q], vload(odd + i + q * C), y);
    }
    if (p.y_stride == C) {
      vstore_n(p.y + p.t0 * C + i, n * C - i, y);
      continue;
    }
    alignas(64) float lanes[kLanes];
    vstore(lanes, y);
    for (int64_t l = 0; l < kLanes && i + l < n * C; ++l) {
      p.y[t * p.y_stride + c] = lanes[l];
      if (++c == C) c = 0, ++t;
    }
  }
}

#undef ZT_COLUMNS
