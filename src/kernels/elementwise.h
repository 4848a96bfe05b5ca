#pragma once
// Row and element operations, all float32 in and out (Activations: or bf16 tiles out), each over the threads of `exec`. `y` may be `x`
// where shapes agree.
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/exec.h"
#include "tensor/tensor.h"

namespace zt {

// y = x / sqrt(mean(x^2) + eps) * weight, row by row; weight [cols] or null (ones).
void rms_norm(const Exec& exec, ConstMat x, const float* weight, float eps, const Activations& y);
// y = (x - mean) / sqrt(var + eps) * weight + bias, row by row.
void layer_norm(const Exec& exec, ConstMat x, const float* weight, const float* bias, float eps, const Activations& y);

// AdaLN: y = rms_norm(x) * (1 + scale[r]) + shift[r] with r = table_row[row]; scale and shift are rows of [cols] floats, `stride` apart.
void rms_norm_modulate(const Exec& exec, ConstMat x, const float* weight, float eps, const float* scale, const float* shift,
                       int64_t stride, const int32_t* table_row, const Activations& y);

// On every head of every row, in place: RMSNorm over head_dim (if eps > 0; weight [head_dim] or null), then, where cosine is not null,
// rotate_half over the first 2 * half channels: (a, b) at (c, c + half) -> (a cos - b sin, b cos + a sin); the rest stays.
// cosine, sine: [rows, half].
void head_norm_rope(const Exec& exec, float* x, int64_t rows, int64_t stride, int heads, int head_dim, float eps,
                    const float* weight, const float* cosine, const float* sine, int64_t half);

// x [M, 2F] -> y [M, F]. value_first: y = x[:, :F] * silu(x[:, F:]), else silu(x[:, :F]) * x[:, F:].
void swiglu(const Exec& exec, ConstMat x, bool value_first, const Activations& y);
void silu(const Exec& exec, ConstMat x, Mat y);
void gelu_tanh(const Exec& exec, ConstMat x, Mat y);
void gelu_erf(const Exec& exec, ConstMat x, Mat y);
// y += x * scale (scale [cols], or null for ones).
void add_scaled(const Exec& exec, ConstMat x, const float* scale, Mat y);

// Channels-last sound x [T, C]: y = x + sin(alpha x)^2 / (beta + 1e-9), alpha and beta [C] already exponentiated where the model says so.
void snake(const Exec& exec, ConstMat x, const float* alpha, const float* beta, Mat y);
// The same inside an anti-aliasing pair (BigVGAN): upsample 2x with a 12-tap filter (replicate pad 5, transposed stride 2, times 2, crop 15
// and 15), snake, downsample 2x with the other 12-tap filter (replicate pad 5 left, 6 right, stride 2). y [n, C] is rows skip .. skip + n of
// the result (the whole of it is [T, C]); a row sees x from 5 rows before to 5 behind. x and y must not overlap.
void snake_anti_aliased(const Exec& exec, ConstMat x, const float* alpha, const float* beta, const float* up_filter,
                        const float* down_filter, Mat y, int64_t skip = 0);

// GroupNorm over one frame x [pixels, C] (statistics over pixels and C / groups channels), then silu if asked.
void group_norm(const Exec& exec, ConstMat x, int groups, const float* weight, const float* bias, float eps, bool with_silu, Mat y);

// max |x|, and whether all are finite: the guard after each stage.
bool all_finite(const Exec& exec, ConstMat x);

// Pictures x [frames, 3, plane] to bytes [frames, plane, 3]: 255 clamp(x * scale[c] + shift[c], 0, 1), ties to even; scale and shift null:
// ones and zeros. False, and bytes of no meaning, if one of x is not finite.
bool planes_to_rgb(const Exec& exec, const float* x, int64_t frames, int64_t plane, const float* scale, const float* shift, uint8_t* rgb);

}  // namespace zt
