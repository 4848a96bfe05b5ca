// The portable table: plain loops in the order of the definitions, the oracle of every other table.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops.h"

namespace zt {

namespace {

constexpr int kRows = 4, kCols = 8;

void gemm_f32(const F32Block& p) noexcept {
  for (int64_t j = 0; j < p.n; j += kCols) {
    const int64_t width = std::min<int64_t>(kCols, p.n - j);
    const float* panel = p.b + j * p.k;
    for (int64_t i = 0; i < p.m; ++i) {
      float* c = p.c + i * p.ldc + j;
      float acc[kCols];
      for (int64_t v = 0; v < width; ++v) acc[v] = 0;
      int64_t s = p.k0 / p.segment, at = p.k0 % p.segment;
      for (int64_t k = p.k0; k < p.k1; ++k) {
        const float x = p.a[i * p.row_stride + p.offsets[s] + at];
        for (int64_t v = 0; v < width; ++v) acc[v] += x * panel[k * width + v];
        if (++at == p.segment) at = 0, ++s;
      }
      for (int64_t v = 0; v < width; ++v) c[v] = p.accumulate ? c[v] + acc[v] : acc[v];
    }
  }
}

float silu_of(float x) { return x / (1 + std::exp(-x)); }

float activate(float x, int kind) {
  switch (kind) {
    case 1: return silu_of(x);
    case 2: return x / (1 + std::exp(-2 * (0.797884561f * (x + 0.044715f * x * x * x))));
    case 3: return 0.5f * x * std::erfc(-x * 0.707106781f);
    default: return x;
  }
}

void finish(const FinishBlock& p) noexcept {
  for (int64_t i = 0; i < p.m; ++i) {
    float* c = p.c + i * p.ldc;
    const float* gate = p.gate ? p.gate + (p.gate_row ? p.gate_row[i] : 0) * p.gate_stride : nullptr;
    for (int64_t j = 0; j < p.n; ++j) {
      const float v = activate(p.acc[i * p.ldacc + j] + (p.bias ? p.bias[j] : 0), p.activation);
      if (gate) c[j] += gate[j] * v;
      else c[j] = p.add ? c[j] + v : v;
    }
  }
}

void softmax(const SoftmaxBlock& p) noexcept {
  for (int64_t i = 0; i < p.m; ++i) {
    float* s = p.s + i * p.lds;
    const int64_t valid = p.first_valid >= p.n - i ? p.n : std::max<int64_t>(0, p.first_valid + i);
    if (valid > 0) {
      float top = p.top[i];
      for (int64_t j = 0; j < valid; ++j) top = std::max(top, s[j] * p.scale);
      const float keep = std::exp(p.top[i] - top);
      float sum = 0;
      for (int64_t j = 0; j < valid; ++j) sum += s[j] = std::exp(s[j] * p.scale - top);
      p.sum[i] = p.sum[i] * keep + sum;
      p.top[i] = top;
      for (int64_t d = 0; d < p.d_pad; ++d) p.o[i * p.ldo + d] *= keep;
    }
    std::fill(s + valid, s + p.n_pad, 0.0f);
  }
}

#include "kernels/cpu/transpose.inl"

float inverse_rms(const float* x, int64_t n, float eps) {
  double s = 0;
  for (int64_t j = 0; j < n; ++j) s += double{x[j]} * x[j];
  return 1 / std::sqrt(static_cast<float>(s / static_cast<double>(n)) + eps);
}

void rms_norm(const NormRows& p) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    const float r = inverse_rms(x, p.cols, p.eps);
    for (int64_t j = 0; j < p.cols; ++j) y[j] = x[j] * r * (p.weight ? p.weight[j] : 1);
  }
}

void rms_norm_modulate(const NormRows& p) noexcept {
  rms_norm(p);
  for (int64_t i = 0; i < p.rows; ++i) {
    float* y = p.y + i * p.y_stride;
    const int64_t t = p.table_row[i] * p.stride;
    for (int64_t j = 0; j < p.cols; ++j) y[j] = y[j] * (1 + p.scale[t + j]) + p.shift[t + j];
  }
}

void layer_norm(const NormRows& p) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    double s = 0, q = 0;
    for (int64_t j = 0; j < p.cols; ++j) s += x[j];
    const double mean = s / static_cast<double>(p.cols);
    for (int64_t j = 0; j < p.cols; ++j) q += (x[j] - mean) * (x[j] - mean);
    const double r = 1 / std::sqrt(q / static_cast<double>(p.cols) + p.eps);
    for (int64_t j = 0; j < p.cols; ++j) {
      y[j] = static_cast<float>((x[j] - mean) * r) * (p.weight ? p.weight[j] : 1) + (p.bias ? p.bias[j] : 0);
    }
  }
}

void head_norm_rope(const RopeRows& p) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    for (int64_t h = 0; h < p.heads; ++h) {
      float* x = p.x + i * p.stride + h * p.head_dim;
      if (p.eps > 0) {
        const float r = inverse_rms(x, p.head_dim, p.eps);
        for (int64_t j = 0; j < p.head_dim; ++j) x[j] *= r * (p.weight ? p.weight[j] : 1);
      }
      for (int64_t j = 0; p.cosine && j < p.half; ++j) {
        const float a = x[j], b = x[j + p.half], c = p.cosine[i * p.half + j], s = p.sine[i * p.half + j];
        x[j] = a * c - b * s;
        x[j + p.half] = b * c + a * s;
      }
    }
  }
}

// y[i][j] = f(j, x[i][j], y[i][j])
template <class F>
void map(const MapRows& p, F f) {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    for (int64_t j = 0; j < p.cols; ++j) y[j] = f(j, x[j], y[j]);
  }
}

void swiglu(const MapRows& p, bool value_first) noexcept {
  for (int64_t i = 0; i < p.rows; ++i) {
    const float* x = p.x + i * p.x_stride;
    float* y = p.y + i * p.y_stride;
    for (int64_t j = 0; j < p.cols; ++j) {
      y[j] = value_first ? x[j] * silu_of(x[p.cols + j]) : silu_of(x[j]) * x[p.cols + j];
    }
  }
}

void activation(const MapRows& p, int kind) noexcept {
  map(p, [&](int64_t, float x, float) { return activate(x, kind); });
}

void add_scaled(const MapRows& p) noexcept {
  map(p, [&](int64_t j, float x, float y) { return y + x * (p.a ? p.a[j] : 1); });
}

void affine(const MapRows& p, bool with_silu) noexcept {
  map(p, [&](int64_t j, float x, float) {
    const float v = x * p.a[j] + p.b[j];
    return with_silu ? silu_of(v) : v;
  });
}

float snake_of(float x, float alpha, float inverse_beta) {
  const float s = std::sin(alpha * x);
  return x + s * s * inverse_beta;
}

void snake(const MapRows& p) noexcept {
  map(p, [&](int64_t j, float x, float) { return snake_of(x, p.a[j], p.b[j]); });
}

// Sample j of the doubled rate after the snake; j is clamped to the real ones (replicate padding of the second filter).
float snake_sample(const SnakeTile& p, int64_t j, int64_t c) {
  j = std::clamp<int64_t>(j, 0, 2 * p.total - 1);
  const int64_t t = j / 2;
  float v = 0;
  for (int64_t q = 0; q < 6; ++q) {
    const int64_t at = std::clamp<int64_t>(j % 2 ? t + 3 - q : t + 2 - q, 0, p.total - 1);
    v += 2 * p.up[j % 2 ? 2 * q : 2 * q + 1] * p.x[at * p.x_stride + c];
  }
  return snake_of(v, p.alpha[c], p.inverse_beta[c]);
}

void snake_anti_aliased(const SnakeTile& p) noexcept {
  for (int64_t c = 0; c < p.channels; ++c) {
    float window[12];   // samples 2t - 5 .. 2t + 6
    for (int64_t k = 0; k < 12; ++k) window[k] = snake_sample(p, 2 * p.t0 - 5 + k, c);
    for (int64_t t = p.t0; t < p.t1; ++t) {
      float v = 0;
      for (int64_t k = 0; k < 12; ++k) v += p.down[k] * window[k];
      p.y[t * p.y_stride + c] = v;
      std::copy(window + 2, window + 12, window);
      for (int64_t k = 10; k < 12; ++k) window[k] = snake_sample(p, 2 * (t + 1) - 5 + k, c);
    }
  }
}

void column_stats(const ColumnStats& p) noexcept {
  for (int64_t j = 0; j < p.cols; ++j) {
    double s = 0, q = 0;
    for (int64_t i = 0; i < p.rows; ++i) s += p.x[i * p.x_stride + j];
    const double mean = s / static_cast<double>(p.rows);
    for (int64_t i = 0; i < p.rows; ++i) {
      const double d = p.x[i * p.x_stride + j] - mean;
      q += d * d;
    }
    p.mean[j] = static_cast<float>(mean);
    p.m2[j] = static_cast<float>(q);
  }
}

bool all_finite(const float* x, int64_t n) noexcept {
  return std::all_of(x, x + n, [](float v) { return std::isfinite(v); });
}

bool planes_to_rgb(const RgbPixels& p) noexcept {
  bool finite = true;
  for (int c = 0; c < 3; ++c)
    for (int64_t i = 0; i < p.n; ++i) {
      const float x = p.x[c * p.plane + i];
      finite &= std::isfinite(x);
      p.rgb[3 * i + c] = finite ? static_cast<uint8_t>(std::nearbyint(std::clamp(x * p.scale[c] + p.shift[c], 0.0f, 1.0f) * 255.0f)) : 0;
    }
  return finite;
}

}  // namespace

void fill_ref(Ops& table) {
  table.f32_rows = kRows;
  table.f32_cols = kCols;
  table.f32_lane = kCols;
  table.f32_kc = 1 << 20;
  table.gemm_f32 = gemm_f32;
  table.finish = finish;
  table.softmax = softmax;
  table.transpose_f32 = transpose_f32;
  table.rms_norm = rms_norm;
  table.layer_norm = layer_norm;
  table.rms_norm_modulate = rms_norm_modulate;
  table.head_norm_rope = head_norm_rope;
  table.swiglu = swiglu;
  table.activation = activation;
  table.add_scaled = add_scaled;
  table.snake = snake;
  table.snake_anti_aliased = snake_anti_aliased;
  table.column_stats = column_stats;
  table.affine = affine;
  table.all_finite = all_finite;
  table.planes_to_rgb = planes_to_rgb;
}

}  // namespace zt
