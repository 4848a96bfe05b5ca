// Drivers of the row operations: ranges of rows over the threads, none of them reducing across ranges.
#include "kernels/elementwise.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/ops.h"

namespace zt {

namespace {

// Rows per task: about 16K elements, so that a task outweighs its hand-over.
int64_t row_grain(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cols)); }

void check(bool ok, const char* op, ConstMat x, ConstMat y) {
  if (!ok) fail(ErrorKind::internal, "{}: found x [{}, {}] and y [{}, {}], wanted matching shapes; fix the caller", op, x.rows, x.cols, y.rows, y.cols);
}

void check_same(const char* op, ConstMat x, ConstMat y) { check(x.rows == y.rows && x.cols == y.cols, op, x, y); }
ConstMat shape_of(const Activations& y) { return {y.data, y.rows, y.cols, y.stride}; }

// Sixteen rows at a time of kernel(first row, rows, out [rows, y.cols]) go from a cache into tiles.
template <class Kernel>
void into_tiles(const Exec& exec, const Activations& y, Kernel&& kernel) {
  if (y.cols % kTileCols != 0 || !exec.ops.to_bf16_tiles) {
    fail(ErrorKind::internal, "tiles of {} columns on {}: wanted a multiple of {} and tile units; fix the caller", y.cols, exec.ops.name, kTileCols);
  }
  Arena::Scope scope(exec.scratch);
  float* scratch = exec.scratch.take<float>(kTileRows * y.cols * exec.threads.count());
  const int64_t zero = 0, blocks = (y.rows + kTileRows - 1) / kTileRows;
  exec.threads.parallel_for(blocks, std::max<int64_t>(1, row_grain(y.cols) / kTileRows), [&](int64_t i, int64_t end, int worker) {
    float* part = scratch + worker * kTileRows * y.cols;
    for (; i < end; ++i) {
      const int64_t row = i * kTileRows, rows = std::min(kTileRows, y.rows - row);
      kernel(row, rows, part);
      F32Block a{};
      a.a = part, a.row_stride = a.segment = a.k = y.cols, a.offsets = &zero, a.m = rows;
      exec.ops.to_bf16_tiles(a, 1, y.tiles + row * y.cols);
    }
  });
}

NormRows norm_rows(ConstMat x, const Activations& y, float eps, const float* weight, const float* bias) {
  NormRows p{};
  p.x = x.data, p.x_stride = x.stride, p.y = y.data, p.y_stride = y.stride;
  p.rows = x.rows, p.cols = x.cols, p.eps = eps, p.weight = weight, p.bias = bias;
  return p;
}

void for_rows(const Exec& exec, NormRows p, const Activations& y, void (*kernel)(const NormRows&) noexcept) {
  if (y.tiles) {
    into_tiles(exec, y, [&](int64_t i, int64_t rows, float* out) {
      NormRows part = p;
      part.x += i * p.x_stride, part.y = out, part.y_stride = p.cols, part.rows = rows;
      if (p.table_row) part.table_row += i;
      kernel(part);
    });
    return;
  }
  exec.threads.parallel_for(p.rows, row_grain(p.cols), [&](int64_t i, int64_t end, int) {
    NormRows part = p;
    part.x += i * p.x_stride, part.y += i * p.y_stride, part.rows = end - i;
    if (p.table_row) part.table_row += i;
    kernel(part);
  });
}

// kernel(part) over ranges of rows.
template <class Kernel>
void for_rows(const Exec& exec, MapRows p, Kernel&& kernel) {
  exec.threads.parallel_for(p.rows, row_grain(p.cols), [&](int64_t i, int64_t end, int) {
    MapRows part = p;
    part.x += i * p.x_stride, part.y += i * p.y_stride, part.rows = end - i;
    kernel(part);
  });
}

MapRows map_rows(ConstMat x, Mat y) { return {x.data, x.stride, y.data, y.stride, y.rows, y.cols, nullptr, nullptr}; }

void activate(const Exec& exec, const char* op, ConstMat x, Mat y, int kind) {
  check_same(op, x, y);
  for_rows(exec, map_rows(x, y), [&](const MapRows& p) { exec.ops.activation(p, kind); });
}

// out[channels + 16] = values or 1 / (values + 1e-9), periodic, so that a vector may start at any channel.
void periodic(const float* values, int64_t channels, bool invert, float* out) {
  for (int64_t i = 0; i < channels + 16; ++i) {
    const float v = values[i % channels];
    out[i] = invert ? 1.0f / (v + 1e-9f) : v;
  }
}

}  // namespace

void rms_norm(const Exec& exec, ConstMat x, const float* weight, float eps, const Activations& y) {
  check_same("rms_norm", x, shape_of(y));
  for_rows(exec, norm_rows(x, y, eps, weight, nullptr), y, exec.ops.rms_norm);
}

void layer_norm(const Exec& exec, ConstMat x, const float* weight, const float* bias, float eps, const Activations& y) {
  check_same("layer_norm", x, shape_of(y));
  for_rows(exec, norm_rows(x, y, eps, weight, bias), y, exec.ops.layer_norm);
}

void rms_norm_modulate(const Exec& exec, ConstMat x, const float* weight, float eps, const float* scale, const float* shift,
                       int64_t stride, const int32_t* table_row, const Activations& y) {
  check_same("rms_norm_modulate", x, shape_of(y));
  NormRows p = norm_rows(x, y, eps, weight, nullptr);
  p.scale = scale, p.shift = shift, p.stride = stride, p.table_row = table_row;
  for_rows(exec, p, y, exec.ops.rms_norm_modulate);
}

void head_norm_rope(const Exec& exec, float* x, int64_t rows, int64_t stride, int heads, int head_dim, float eps, const float* weight,
                    const float* cosine, const float* sine, int64_t half) {
  if (cosine && 2 * half > head_dim) {
    fail(ErrorKind::internal, "head_norm_rope: found half {}, wanted at most half of head_dim {}; fix the caller", half, head_dim);
  }
  exec.threads.parallel_for(rows, row_grain(int64_t{heads} * head_dim), [&](int64_t i, int64_t end, int) {
    const RopeRows p{x + i * stride, stride, end - i, heads, head_dim, eps, weight, cosine ? cosine + i * half : nullptr,
                     cosine ? sine + i * half : nullptr, half};
    exec.ops.head_norm_rope(p);
  });
}

void swiglu(const Exec& exec, ConstMat x, bool value_first, const Activations& y) {
  check(x.rows == y.rows && x.cols == 2 * y.cols, "swiglu", x, shape_of(y));
  if (y.tiles) {
    into_tiles(exec, y, [&](int64_t i, int64_t rows, float* out) {
      exec.ops.swiglu({x.row(i), x.stride, out, y.cols, rows, y.cols, nullptr, nullptr}, value_first);
    });
    return;
  }
  for_rows(exec, map_rows(x, {y.data, y.rows, y.cols, y.stride}), [&](const MapRows& p) { exec.ops.swiglu(p, value_first); });
}

void silu(const Exec& exec, ConstMat x, Mat y) { activate(exec, "silu", x, y, 1); }
void gelu_tanh(const Exec& exec, ConstMat x, Mat y) { activate(exec, "gelu_tanh", x, y, 2); }
void gelu_erf(const Exec& exec, ConstMat x, Mat y) { activate(exec, "gelu_erf", x, y, 3); }

void add_scaled(const Exec& exec, ConstMat x, const float* scale, Mat y) {
  check_same("add_scaled", x, y);
  MapRows p = map_rows(x, y);
  p.a = scale;
  for_rows(exec, p, exec.ops.add_scaled);
}

void snake(const Exec& exec, ConstMat x, const float* alpha, const float* beta, Mat y) {
  check_same("snake", x, y);
  if (x.rows == 0 || x.cols == 0) return;
  Arena::Scope scope(exec.scratch);
  float* inverse = exec.scratch.take<float>(x.cols + 16);
  periodic(beta, x.cols, true, inverse);
  MapRows p = map_rows(x, y);
  p.a = alpha, p.b = inverse;
  for_rows(exec, p, exec.ops.snake);
}

void snake_anti_aliased(const Exec& exec, ConstMat x, const float* alpha, const float* beta, const float* up_filter,
                        const float* down_filter, Mat y, int64_t skip) {
  if (skip < 0 || y.rows < 0 || skip + y.rows > x.rows || x.cols != y.cols) {
    fail(ErrorKind::internal, "snake_anti_aliased: found rows {} to {} of [{}, {}] from [{}, {}]; fix the caller", skip, skip + y.rows, skip + y.rows,
         y.cols, x.rows, x.cols);
  }
  if (y.rows == 0 || x.cols == 0) return;
  // A tile of time by channels whose working set stays in the second-level cache, and whose halo of 6 rows stays a small part.
  constexpr int64_t kChannels = 64, kElements = 8192;
  Arena::Scope scope(exec.scratch);
  const int64_t width = x.cols <= kChannels * 3 / 2 ? x.cols : kChannels, blocks = (x.cols + width - 1) / width;
  const int64_t rows = std::max<int64_t>(1, kElements / width), steps = (y.rows + rows - 1) / rows;
  const int64_t room = snake_scratch_floats(rows, width);
  float* scratch = exec.scratch.take<float>(room * exec.threads.count());
  const int64_t period = width + 16;
  float* alphas = exec.scratch.take<float>(period * blocks);
  float* inverses = exec.scratch.take<float>(period * blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t n = std::min(width, x.cols - b * width);
    periodic(alpha + b * width, n, false, alphas + b * period);
    periodic(beta + b * width, n, true, inverses + b * period);
  }
  exec.threads.parallel_for(steps * blocks, 1, [&](int64_t i, int64_t end, int worker) {
    for (; i < end; ++i) {
      const int64_t b = i % blocks, first = b * width, t = skip + i / blocks * rows;
      const SnakeTile p{x.data + first, x.stride, y.data + first - skip * y.stride, y.stride, x.rows, std::min(width, x.cols - first), t,
                        std::min(skip + y.rows, t + rows), alphas + b * period, inverses + b * period, up_filter, down_filter,
                        scratch + worker * room};
      exec.ops.snake_anti_aliased(p);
    }
  });
}

void group_norm(const Exec& exec, ConstMat x, int groups, const float* weight, const float* bias, float eps, bool with_silu, Mat y) {
  check_same("group_norm", x, y);
  if (groups < 1 || x.cols % groups != 0) {
    fail(ErrorKind::internal, "group_norm: found {} channels, wanted a multiple of {} groups; fix the caller", x.cols, groups);
  }
  if (x.rows == 0) return;
  // Fixed chunks of pixels, joined in order in double: the same bits for every number of threads.
  constexpr int64_t kChunk = 256;
  Arena::Scope scope(exec.scratch);
  const int64_t C = x.cols, chunks = (x.rows + kChunk - 1) / kChunk, per = C / groups;
  float* means = exec.scratch.take<float>(chunks * C);
  float* squares = exec.scratch.take<float>(chunks * C);
  exec.threads.parallel_for(chunks, 1, [&](int64_t i, int64_t end, int) {
    for (; i < end; ++i) {
      const int64_t first = i * kChunk, n = std::min(kChunk, x.rows - first);
      exec.ops.column_stats({x.row(first), x.stride, n, C, means + i * C, squares + i * C});
    }
  });
  float* a = exec.scratch.take<float>(C);
  float* b = exec.scratch.take<float>(C);
  for (int64_t g = 0; g < groups; ++g) {
    double count = 0, mean = 0, m2 = 0;   // Chan, Golub and LeVeque's pairwise update
    for (int64_t i = 0; i < chunks; ++i) {
      const double n = static_cast<double>(std::min(kChunk, x.rows - i * kChunk));
      for (int64_t c = g * per; c < (g + 1) * per; ++c) {
        const double delta = means[i * C + c] - mean, total = count + n;
        mean += delta * n / total;
        m2 += squares[i * C + c] + delta * delta * count * n / total;
        count = total;
      }
    }
    const double r = 1 / std::sqrt(m2 / count + eps);
    for (int64_t c = g * per; c < (g + 1) * per; ++c) {
      const double w = weight ? weight[c] : 1;
      a[c] = static_cast<float>(r * w);
      b[c] = static_cast<float>((bias ? bias[c] : 0) - mean * r * w);
    }
  }
  MapRows p = map_rows(x, y);
  p.a = a, p.b = b;
  for_rows(exec, p, [&](const MapRows& part) { exec.ops.affine(part, with_silu); });
}

bool planes_to_rgb(const Exec& exec, const float* x, int64_t frames, int64_t plane, const float* scale, const float* shift, uint8_t* rgb) {
  static constexpr float kOnes[3] = {1, 1, 1}, kZeros[3] = {};
  constexpr int64_t kPixels = 4096;
  const int64_t parts = (plane + kPixels - 1) / kPixels;
  std::atomic<bool> finite{true};
  exec.threads.parallel_for(frames * parts, 1, [&](int64_t i, int64_t end, int) {
    for (; i < end; ++i) {
      const int64_t frame = i / parts, first = i % parts * kPixels;
      const RgbPixels p{x + frame * 3 * plane + first, plane, std::min(kPixels, plane - first), scale ? scale : kOnes, shift ? shift : kZeros,
                        rgb + (frame * plane + first) * 3};
      if (!exec.ops.planes_to_rgb(p)) finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load();
}

bool all_finite(const Exec& exec, ConstMat x) {
  std::atomic<bool> finite{true};   // an AND of the parts: independent of their order
  exec.threads.parallel_for(x.rows, row_grain(x.cols), [&](int64_t i, int64_t end, int) {
    for (; i < end && finite.load(std::memory_order_relaxed); ++i) {
      if (!exec.ops.all_finite(x.row(i), x.cols)) finite.store(false, std::memory_order_relaxed);
    }
  });
  return finite.load();
}

}  // namespace zt
