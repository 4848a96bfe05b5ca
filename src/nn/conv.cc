#include "nn/conv.h"

#include <algorithm>
#include <cstring>

namespace zt {

namespace {

// w [out, in, taps] -> [out, taps, in]
std::vector<float> taps_outermost(std::span<const float> w, int64_t out, int64_t in, int64_t taps) {
  std::vector<float> r(w.size());
  for (int64_t o = 0; o < out; ++o)
    for (int64_t j = 0; j < taps; ++j)
      for (int64_t i = 0; i < in; ++i)
        r[static_cast<size_t>((o * taps + j) * in + i)] = w[static_cast<size_t>((o * in + i) * taps + j)];
  return r;
}

PackedWeight pack(const Ops& ops, const std::vector<float>& w, int64_t n, int64_t segments) {
  View view{w.data(), DType::f32, {n, static_cast<int64_t>(w.size()) / n}};
  return pack_weight(ops, view, segments, Compute::f32);
}

}  // namespace

Conv1d make_conv1d(const Ops& ops, std::span<const float> w, std::vector<float> bias, int64_t out, int64_t in, int64_t kernel,
                   int64_t stride, int64_t dilation) {
  Conv1d c;
  // Neighbouring taps of an undilated convolution lie side by side, so they are one run.
  c.weight = pack(ops, taps_outermost(w, out, in, kernel), out, dilation == 1 ? 1 : kernel);
  c.bias = std::move(bias);
  c.in = in, c.out = out, c.kernel = kernel, c.stride = stride, c.dilation = kernel == 1 ? 1 : dilation;
  return c;
}

void conv1d(const Ctx& ctx, ConstMat x, const Conv1d& c, Mat y, bool add) {
  if (y.rows <= 0) return;
  std::vector<int64_t> offsets;
  if (c.weight.segments > 1)
    for (int64_t j = 0; j < c.kernel; ++j) offsets.push_back(j * c.dilation * c.in);
  GemmOutput out{.data = y.data, .row_stride = y.stride};
  out.bias = c.bias.empty() ? nullptr : c.bias.data();
  out.add = add;
  gemm(ctx.exec, {.data = x.data, .rows = y.rows, .row_stride = c.stride * c.in, .offsets = offsets, .segment = c.weight.segment}, c.weight, out);
}

TransposedConv1d make_transposed_conv1d(const Ops& ops, std::span<const float> w, std::span<const float> bias, int64_t in, int64_t out,
                                        int64_t kernel, int64_t stride) {
  TransposedConv1d c;
  c.in = in, c.out = out, c.kernel = kernel, c.stride = stride, c.taps = (kernel + stride - 1) / stride;
  // Output row q * stride + r - padding sums, over the input rows q - i, the kernel taps r + i * stride.
  std::vector<float> m(static_cast<size_t>(stride * out * c.taps * in), 0.0f);
  for (int64_t r = 0; r < stride; ++r)
    for (int64_t i = 0; i < c.taps; ++i) {
      int64_t tap = r + i * stride;
      if (tap >= kernel) continue;
      for (int64_t o = 0; o < out; ++o)
        for (int64_t k = 0; k < in; ++k)
          m[static_cast<size_t>(((r * out + o) * c.taps + (c.taps - 1 - i)) * in + k)] = w[static_cast<size_t>((k * out + o) * kernel + tap)];
    }
  c.weight = pack(ops, m, stride * out, 1);
  if (!bias.empty())
    for (int64_t r = 0; r < stride; ++r) c.bias.insert(c.bias.end(), bias.begin(), bias.end());
  return c;
}

void transposed_conv1d(const Ctx& ctx, ConstMat x, const TransposedConv1d& c, Mat y) {
  int64_t blocks = x.rows - c.taps + 1;
  if (blocks <= 0) return;
  GemmOutput out{.data = y.data, .row_stride = c.stride * c.out};
  out.bias = c.bias.empty() ? nullptr : c.bias.data();
  gemm(ctx.exec, {.data = x.data, .rows = blocks, .row_stride = c.in, .offsets = {}, .segment = c.taps * c.in}, c.weight, out);
}

CausalConv3d make_causal_conv3d(const Ops& ops, std::span<const float> w, std::vector<float> bias, int64_t out, int64_t in) {
  CausalConv3d c;
  std::vector<float> all = taps_outermost(w, out, in, 27), last;
  c.all = pack(ops, all, out, 9);
  for (int64_t o = 0; o < out; ++o) {
    auto first = all.begin() + (o * 27 + 18) * in;
    last.insert(last.end(), first, first + 9 * in);
  }
  c.last = pack(ops, last, out, 3);
  c.bias = std::move(bias);
  c.in = in, c.out = out;
  return c;
}

FrameRing make_frame_ring(const Ctx& ctx, int64_t height, int64_t width, int64_t channels, int64_t frames) {
  FrameRing ring;
  ring.height = height, ring.width = width, ring.channels = channels;
  for (size_t i = 0; i < ring.planes.size(); ++i)
    ring.planes[i] = i == 0 || frames > 1 ? ctx.arena().take<float>(ring.plane_floats()) : nullptr;
  // The second frame looks back two; no other plane is read before it is written.
  if (frames > 1) std::memset(ring.planes[2], 0, static_cast<size_t>(ring.plane_floats()) * sizeof(float));
  return ring;
}

void causal_conv3d(const Ctx& ctx, const FrameRing& ring, const CausalConv3d& conv, int64_t height, int64_t width, int64_t stride, Mat y,
                   bool add) {
  const bool first = ring.seen == 1;
  const int64_t pitch = ring.width * ring.channels;
  const float* base = ring.planes[static_cast<size_t>((ring.seen - 1) % 3)];
  std::vector<int64_t> offsets;
  for (int64_t back = first ? 0 : 2; back >= 0; --back) {
    const float* plane = ring.planes[static_cast<size_t>((ring.seen + 2 - back) % 3)];
    for (int64_t row = 0; row < 3; ++row) offsets.push_back(plane - base + row * pitch);
  }
  // One product over the pixels in memory order; the columns between two rows of the picture are computed too and left out below.
  Arena::Scope scope(ctx.arena());
  const int64_t rows = (height - 1) * ring.width + width;
  Mat wide = ctx.mat(rows, conv.out);
  GemmOutput out{.data = wide.data, .row_stride = wide.stride};
  out.bias = conv.bias.data();
  gemm(ctx.exec, {.data = base, .rows = rows, .row_stride = stride * ring.channels, .offsets = offsets, .segment = 3 * ring.channels},
       first ? conv.last : conv.all, out);
  ctx.exec.threads.parallel_for(height, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* from = wide.row(r * ring.width);
      float* to = y.row(r * width);
      if (add)
        for (int64_t i = 0; i < width * conv.out; ++i) to[i] += from[i];
      else
        std::memcpy(to, from, static_cast<size_t>(width * conv.out) * sizeof(float));
    }
  });
}

void reflect_pad(const Ctx& ctx, ConstMat x, int64_t height, int64_t width, int64_t before, int64_t after, float* plane) {
  const int64_t c = x.cols, full = before + width + after;
  auto mirror = [](int64_t i, int64_t n) { return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i; };
  auto pixel = [&](int64_t r, int64_t col) { return x.row(r * width + col); };
  ctx.exec.threads.parallel_for(before + height + after, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t from = mirror(r - before, height);
      float* to = plane + r * full * c;
      for (int64_t i = 0; i < before; ++i) std::copy_n(pixel(from, mirror(i - before, width)), c, to + i * c);
      std::copy_n(pixel(from, 0), width * c, to + before * c);
      for (int64_t i = 0; i < after; ++i) std::copy_n(pixel(from, mirror(width + i, width)), c, to + (before + width + i) * c);
    }
  });
}

}  // namespace zt
