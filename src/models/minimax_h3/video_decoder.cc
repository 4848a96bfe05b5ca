#include "models/minimax_h3/video_decoder.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "kernels/elementwise.h"

namespace zt::h3 {

namespace {

struct Rope {
  Mat cosine, sine;   // [tokens, rope_dim / 2]
};

// cos and sin of 2 pi coordinate * theta^(-6 j / rope_dim) for one axis of n cells: [n, per_axis] each. Coordinates run over (-1, 1).
struct AxisAngles {
  std::vector<float> cosine, sine;
  AxisAngles(int64_t n, int64_t per_axis, double theta, int64_t rope_dim) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < per_axis; ++j) {
        // float32 where the reference has it: the angle is rounded before its cosine is taken
        const float coordinate = 2.0f * ((static_cast<float>(i) + 0.5f) / static_cast<float>(n)) - 1.0f;
        const float inv_freq = 1.0f / std::pow(static_cast<float>(theta), static_cast<float>(6.0 * static_cast<double>(j) / static_cast<double>(rope_dim)));
        const float angle = 6.283185307179586f * coordinate * inv_freq;
        cosine.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
        sine.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
      }
  }
};

Rope make_rope(const Ctx& ctx, const VideoVaeConfig& c, int64_t frames, int64_t height, int64_t width, int64_t tokens) {
  const int64_t half = c.rope_dim() / 2, per_axis = half / 3;
  Rope rope{ctx.mat(tokens, half), ctx.mat(tokens, half)};
  const AxisAngles t(frames, per_axis, c.decoder_rope_theta, c.rope_dim()), y(height, per_axis, c.decoder_rope_theta, c.rope_dim()),
      x(width, per_axis, c.decoder_rope_theta, c.rope_dim());
  auto fill = [&](int64_t row, const AxisAngles& axis, int64_t i, int64_t part) {
    std::copy_n(axis.cosine.data() + i * per_axis, per_axis, rope.cosine.row(row) + part * per_axis);
    std::copy_n(axis.sine.data() + i * per_axis, per_axis, rope.sine.row(row) + part * per_axis);
  };
  for (int64_t row = 0; row < tokens; ++row) {
    if (row < frames * height * width) {
      fill(row, t, row / (height * width), 0);
      fill(row, y, row / width % height, 1);
      fill(row, x, row % width, 2);
    } else {   // registers stand at the origin
      std::fill_n(rope.cosine.row(row), half, 1.0f);
      std::fill_n(rope.sine.row(row), half, 0.0f);
    }
  }
  return rope;
}

void attend(const Ctx& ctx, const VideoDecoder::Block& b, const VideoVaeConfig& c, const Rope& rope, const Activations& h, Mat x) {
  const int64_t dim = c.dim(), tokens = h.rows;
  const int heads = static_cast<int>(c.decoder_num_attention_heads), head_dim = static_cast<int>(c.decoder_attention_head_dim);
  Arena::Scope scope(ctx.arena());
  const Activations o = activations_for(ctx, b.out, tokens);
  Mat qkv = ctx.mat(tokens, 3 * dim);
  linear(ctx, h, b.qkv, qkv);
  for (int64_t part = 0; part < 2; ++part)
    head_norm_rope(ctx.exec, qkv.data + part * dim, tokens, qkv.stride, heads, head_dim, c.decoder_norm_eps, nullptr, rope.cosine.data,
                   rope.sine.data, c.rope_dim() / 2);
  attention(ctx.exec, {.q = qkv.data,
                       .k = qkv.data + dim,
                       .v = qkv.data + 2 * dim,
                       .o = o.data,
                       .o_tiles = o.tiles,
                       .q_rows = tokens,
                       .kv_rows = tokens,
                       .q_stride = qkv.stride,
                       .k_stride = qkv.stride,
                       .v_stride = qkv.stride,
                       .o_stride = o.stride,
                       .heads = heads,
                       .kv_heads = heads,
                       .head_dim = head_dim,
                       .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
                       .compute = b.qkv.weight.compute});
  linear_gated(ctx, o, b.out, x, b.scale1.data(), 0, nullptr);
}

void feed_forward(const Ctx& ctx, const VideoDecoder::Block& b, const Activations& h, Mat x) {
  Arena::Scope scope(ctx.arena());
  const Activations inner = activations_for(ctx, b.fc2, h.rows);
  linear_swiglu(ctx, h, b.fc1, inner);
  linear_gated(ctx, inner, b.fc2, x, b.scale2.data(), 0, nullptr);
}

}  // namespace

VideoDecoder load_video_decoder(const Weights& w, const Ops& ops, const VideoVaeConfig& c, Compute compute) {
  VideoDecoder d;
  d.post_quant_conv = load_linear(w, ops, "post_quant_conv", Compute::f32);
  d.proj_in = load_linear(w, ops, "decoder.proj_in", Compute::f32);
  d.suffix = w.vector("decoder.register_tokens");
  d.suffix.resize(d.suffix.size() + static_cast<size_t>(c.dim()), 0.0f);
  for (int64_t i = 0; i < c.decoder_num_layers; ++i) {
    const std::string p = fmt::format("decoder.transformer_blocks.{}.", i);
    d.blocks.push_back({w.vector(p + "norm1.weight"), w.vector(p + "scale1"), w.vector(p + "norm2.weight"), w.vector(p + "scale2"),
                        load_stacked(w, ops, {p + "attn.to_q", p + "attn.to_k", p + "attn.to_v"}, compute),
                        load_linear(w, ops, p + "attn.to_out.0", compute), load_gated(w, ops, {p + "ff.net.0.proj"}, true, compute),
                        load_linear(w, ops, p + "ff.net.2", compute)});
  }
  d.norm_out_weight = w.vector("decoder.norm_out.weight");
  d.norm_out_bias = w.vector("decoder.norm_out.bias");
  d.proj_out = load_linear(w, ops, "decoder.proj_out", compute);
  return d;
}

void decode_patches(const Ctx& ctx, const VideoDecoder& d, const VideoVaeConfig& c, ConstMat latents, int64_t frames, int64_t height,
                    int64_t width, Mat patches) {
  Arena::Scope scope(ctx.arena());
  const int64_t voxels = latents.rows, tokens = voxels + c.decoder_num_register_tokens + 1;
  Mat z = ctx.mat(voxels, c.latent_channels), x = ctx.mat(tokens, c.dim());
  linear(ctx, latents, d.post_quant_conv, z);
  linear(ctx, z, d.proj_in, x.rows_from(0, voxels));
  std::copy(d.suffix.begin(), d.suffix.end(), x.row(voxels));

  const Rope rope = make_rope(ctx, c, frames, height, width, tokens);
  for (const VideoDecoder::Block& b : d.blocks) {
    ctx.exec.check_cancel();
    Arena::Scope block_scope(ctx.arena());
    const Activations h = activations_for(ctx, b.qkv, tokens);
    rms_norm(ctx.exec, x, b.norm1.data(), c.decoder_norm_eps, h);
    attend(ctx, b, c, rope, h, x);
    rms_norm(ctx.exec, x, b.norm2.data(), c.decoder_norm_eps, h);
    feed_forward(ctx, b, h, x);
  }
  const Activations visible = activations_for(ctx, d.proj_out, voxels);
  layer_norm(ctx.exec, x.rows_from(0, voxels), d.norm_out_weight.data(), d.norm_out_bias.data(), c.decoder_norm_eps, visible);
  linear(ctx, visible, d.proj_out, patches);
}

}  // namespace zt::h3
