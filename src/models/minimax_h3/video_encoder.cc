#include "models/minimax_h3/video_encoder.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace zt::h3 {

namespace {

CausalConv3d load_conv(const Weights& w, const Ops& ops, const std::string& prefix) {
  const Shape shape = w.view(prefix + ".weight").shape;
  return make_causal_conv3d(ops, w.vector(prefix + ".weight"), w.vector(prefix + ".bias"), shape[0], shape[1]);
}

VideoEncoder::Norm load_norm(const Weights& w, const std::string& prefix) { return {w.vector(prefix + ".weight"), w.vector(prefix + ".bias")}; }

// A picture between layers.
struct Frame {
  Mat x;   // [height * width, channels]
  int64_t height = 0, width = 0;
};

// What one pass over a clip keeps: the past frames of every convolution.
class Pass {
 public:
  Pass(const Ctx& ctx, const VideoEncoder& e, const VideoVaeConfig& c, int64_t frames, int64_t height, int64_t width)
      : ctx_(ctx), e_(e), c_(c), in_(make_frame_ring(ctx, height + 2, width + 2, c.in_channels, frames)) {
    for (const VideoEncoder::Level& level : e.levels) {
      auto& rings = rings_.emplace_back();
      for (const VideoEncoder::Resnet& r : level.resnets) {
        rings.push_back(make_frame_ring(ctx, height + 2, width + 2, r.conv1.in, frames));
        rings.push_back(make_frame_ring(ctx, height + 2, width + 2, r.conv2.in, frames));
      }
      if (!level.downsampler) continue;
      rings.push_back(make_frame_ring(ctx, height + 1, width + 1, level.downsampler->in, frames));
      height /= level.spatial_stride, width /= level.spatial_stride;
    }
    out_ = make_frame_ring(ctx, height + 2, width + 2, e.conv_out.in, frames);
  }

  // True if this frame completed a latent frame, written to moments [h * w, 2 * latent_channels].
  bool push(Frame f, Mat moments) {
    Arena::Scope scope(ctx_.arena());
    f = conv(in_, e_.conv_in, f, 1);
    for (size_t i = 0; i < e_.levels.size(); ++i) {
      const VideoEncoder::Level& level = e_.levels[i];
      for (size_t j = 0; j < level.resnets.size(); ++j) {
        ctx_.exec.check_cancel();
        f = resnet(level.resnets[j], rings_[i][2 * j], rings_[i][2 * j + 1], f);
      }
      if (level.downsampler && !downsample(level, rings_[i].back(), f)) return false;
    }
    Frame normed = norm_silu(e_.norm_out, f);
    f = conv(out_, e_.conv_out, normed, 1);
    linear(ctx_, f.x, e_.quant_conv, moments);
    return true;
  }

 private:
  Frame norm_silu(const VideoEncoder::Norm& n, Frame f) {
    Frame y{ctx_.mat(f.x.rows, f.x.cols), f.height, f.width};
    group_norm(ctx_.exec, f.x, static_cast<int>(c_.norm_num_groups), n.weight.data(), n.bias.data(), c_.norm_eps, true, y.x);
    return y;
  }

  Frame conv(FrameRing& ring, const CausalConv3d& conv, Frame f, int64_t before) {
    reflect_pad(ctx_, f.x, f.height, f.width, before, 1, ring.push());
    Frame y{ctx_.mat(f.x.rows, conv.out), f.height, f.width};
    causal_conv3d(ctx_, ring, conv, f.height, f.width, 1, y.x);
    return y;
  }

  Frame resnet(const VideoEncoder::Resnet& r, FrameRing& first, FrameRing& second, Frame f) {
    Frame y{ctx_.mat(f.x.rows, r.conv2.out), f.height, f.width};
    Arena::Scope scope(ctx_.arena());
    if (r.conv_shortcut)
      linear(ctx_, f.x, *r.conv_shortcut, y.x);
    else
      std::copy_n(f.x.data, f.x.rows * f.x.cols, y.x.data);
    Frame h = conv(first, r.conv1, norm_silu(r.norm1, f), 1);
    h = norm_silu(r.norm2, h);
    reflect_pad(ctx_, h.x, h.height, h.width, 1, 1, second.push());
    causal_conv3d(ctx_, second, r.conv2, h.height, h.width, 1, y.x, true);
    return y;
  }

  // False while the temporal stride skips this frame.
  bool downsample(const VideoEncoder::Level& level, FrameRing& ring, Frame& f) {
    reflect_pad(ctx_, f.x, f.height, f.width, 0, 1, ring.push());
    if ((ring.seen - 1) % level.temporal_stride) return false;
    f.height /= level.spatial_stride, f.width /= level.spatial_stride;
    f.x = ctx_.mat(f.height * f.width, level.downsampler->out);
    causal_conv3d(ctx_, ring, *level.downsampler, f.height, f.width, level.spatial_stride, f.x);
    return true;
  }

  const Ctx& ctx_;
  const VideoEncoder& e_;
  const VideoVaeConfig& c_;
  FrameRing in_, out_;
  std::vector<std::vector<FrameRing>> rings_;   // per level: conv1 and conv2 of each resnet, then the downsampler
};

}  // namespace

VideoEncoder load_video_encoder(const Weights& w, const Ops& ops, const VideoVaeConfig& c) {
  VideoEncoder e;
  e.conv_in = load_conv(w, ops, "encoder.conv_in");
  for (size_t i = 0; i < c.block_out_channels.size(); ++i) {
    const std::string block = fmt::format("encoder.down_blocks.{}", i);
    VideoEncoder::Level level{.resnets = {},
                              .downsampler = {},
                              .temporal_stride = c.temporal_downsample_factors[i],
                              .spatial_stride = c.spatial_downsample_factors[i]};
    for (int64_t j = 0; j < c.layers_per_block; ++j) {
      const std::string p = fmt::format("{}.resnets.{}", block, j);
      VideoEncoder::Resnet r{load_norm(w, p + ".norm1"), load_norm(w, p + ".norm2"), load_conv(w, ops, p + ".conv1"), load_conv(w, ops, p + ".conv2"), {}};
      if (w.has(p + ".conv_shortcut.weight")) r.conv_shortcut = load_linear(w, ops, p + ".conv_shortcut", Compute::f32);
      level.resnets.push_back(std::move(r));
    }
    if (c.downsamples(i)) level.downsampler = load_conv(w, ops, block + ".downsamplers.0.conv");
    e.levels.push_back(std::move(level));
  }
  e.norm_out = load_norm(w, "encoder.norm_out");
  e.conv_out = load_conv(w, ops, "encoder.conv_out");
  e.quant_conv = load_linear(w, ops, "quant_conv", Compute::f32);
  return e;
}

void encode_clip(const Ctx& ctx, const VideoEncoder& e, const VideoVaeConfig& c, int64_t frames, int64_t height, int64_t width,
                 const FrameSource& frame, Mat moments) {
  Arena::Scope scope(ctx.arena());
  Pass pass(ctx, e, c, frames, height, width);
  Frame input{ctx.mat(height * width, c.in_channels), height, width};
  const int64_t rows = height / c.spatial_ratio() * (width / c.spatial_ratio());
  int64_t done = 0;
  for (int64_t t = 0; t < frames; ++t) {
    frame(t, input.x);
    if (pass.push(input, moments.rows_from(done * rows, std::min(rows, moments.rows - done * rows)))) ++done;
  }
}

}  // namespace zt::h3
