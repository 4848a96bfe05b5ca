#pragma once
// Convolutions over channels-last data, each one matrix product whose rows are runs of the input. The caller pads: every
// routine here is a "valid" convolution. Weights are reordered and packed once, at load.
#include <array>
#include <span>

#include "nn/ctx.h"
#include "nn/linear.h"

namespace zt {

// y[t] = bias + sum_j W_j x[t * stride + j * dilation].
struct Conv1d {
  PackedWeight weight;        // W[out, kernel * in], taps outermost
  std::vector<float> bias;    // [out] or empty
  int64_t in = 0, out = 0, kernel = 1, stride = 1, dilation = 1;
  int64_t reach() const { return (kernel - 1) * dilation; }                             // rows that an output sees, less one
  int64_t rows_out(int64_t rows) const { return rows > reach() ? (rows - reach() - 1) / stride + 1 : 0; }
};
// w [out, in, kernel] as PyTorch's Conv1d keeps it, float32.
Conv1d make_conv1d(const Ops& ops, std::span<const float> w, std::vector<float> bias, int64_t out, int64_t in, int64_t kernel,
                   int64_t stride = 1, int64_t dilation = 1);
// x [rows, in], rows without gaps and already padded -> y [rows_out(rows), out]; with `add`, y += instead.
void conv1d(const Ctx& ctx, ConstMat x, const Conv1d& conv, Mat y, bool add = false);

// Transposed convolution by phases: `taps` input rows give `stride` output rows at once.
struct TransposedConv1d {
  PackedWeight weight;        // W[stride * out, taps * in]
  std::vector<float> bias;    // [stride * out]: the bias of every phase
  int64_t in = 0, out = 0, kernel = 1, stride = 1, taps = 1;   // taps = ceil(kernel / stride)
};
// w [in, out, kernel] as PyTorch's ConvTranspose1d keeps it, float32.
TransposedConv1d make_transposed_conv1d(const Ops& ops, std::span<const float> w, std::span<const float> bias, int64_t in, int64_t out,
                                        int64_t kernel, int64_t stride);
// x [rows, in] without gaps, taps - 1 zero rows in front and behind where the signal ends -> y [(rows - taps + 1) * stride, out] without
// gaps. With n true rows inside the zeros, y[p, p + n * stride) is PyTorch's output for padding p = (kernel - stride) / 2.
void transposed_conv1d(const Ctx& ctx, ConstMat x, const TransposedConv1d& conv, Mat y);

// 3x3x3 convolution over frames, causal in time: frame t sees frames t-2, t-1, t, and zeros before the first.
struct CausalConv3d {
  PackedWeight all;           // W[out, 3 * 3 * 3 * in]: time, row, column, channel
  PackedWeight last;          // its last time tap alone: W[out, 3 * 3 * in], for a first frame
  std::vector<float> bias;    // [out]
  int64_t in = 0, out = 0;
};
// w [out, in, 3, 3, 3] as PyTorch's Conv3d keeps it, float32.
CausalConv3d make_causal_conv3d(const Ops& ops, std::span<const float> w, std::vector<float> bias, int64_t out, int64_t in);

// The newest three input frames of one causal convolution, each padded in space: planes of [height, width, channels].
struct FrameRing {
  std::array<float*, 3> planes{};
  int64_t height = 0, width = 0, channels = 0;   // of a padded plane
  int64_t seen = 0;                              // frames pushed so far
  int64_t plane_floats() const { return height * width * channels; }
  float* push() { return planes[static_cast<size_t>(seen++ % 3)]; }
};
// Takes its planes from the arena of `ctx`; `frames` is how many will be pushed (a single one needs no past).
FrameRing make_frame_ring(const Ctx& ctx, int64_t height, int64_t width, int64_t channels, int64_t frames);

// One output frame from the newest frame of the ring: y [height * width, out] (+)=, where row (r, c) sees the padded plane at (r * stride, c * stride).
void causal_conv3d(const Ctx& ctx, const FrameRing& ring, const CausalConv3d& conv, int64_t height, int64_t width, int64_t stride, Mat y,
                   bool add = false);

// x [height * width, C] -> plane [top + height + bottom, left + width + right, C], mirrored without repeating the edge (PyTorch "reflect").
// Each pad is less than the size it pads.
void reflect_pad(const Ctx& ctx, ConstMat x, int64_t height, int64_t width, int64_t before, int64_t after, float* plane);

}  // namespace zt
