#include "models/minimax_h3/audio_encoder.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "models/minimax_h3/weight_norm.h"

namespace zt::h3 {

namespace {

constexpr float kLayerNormEps = 1e-5f;   // torch.nn.LayerNorm's default
constexpr int64_t kDilations[3] = {1, 3, 9};

AudioEncoder::Norm load_norm(const Weights& w, const std::string& prefix) { return {w.vector(prefix + ".weight"), w.vector(prefix + ".bias")}; }

void norm(const Ctx& ctx, ConstMat x, const AudioEncoder::Norm& n, Mat y) { layer_norm(ctx.exec, x, n.weight.data(), n.bias.data(), kLayerNormEps, y); }

// The middle of a matrix with `pad` zero rows on both sides.
Mat padded(const Ctx& ctx, int64_t rows, int64_t cols, int64_t pad) {
  Mat all = ctx.mat(rows + 2 * pad, cols);
  std::fill_n(all.data, pad * cols, 0.0f);
  std::fill_n(all.row(pad + rows), pad * cols, 0.0f);
  return all.rows_from(pad, rows);
}

ConstMat with_padding(Mat middle, int64_t pad) { return {middle.data - pad * middle.stride, middle.rows + 2 * pad, middle.cols, middle.stride}; }

void residual_unit(const Ctx& ctx, const AudioEncoder::Unit& u, Mat x) {
  Arena::Scope scope(ctx.arena());
  const int64_t pad = u.conv1.reach() / 2;
  Mat a = padded(ctx, x.rows, x.cols, pad), h = ctx.mat(x.rows, x.cols);
  snake(ctx.exec, x, u.alpha1.data(), u.alpha1.data(), a);
  conv1d(ctx, with_padding(a, pad), u.conv1, h);
  snake(ctx.exec, h, u.alpha2.data(), u.alpha2.data(), h);
  conv1d(ctx, h, u.conv2, x, true);
}

Mat snake_conv(const Ctx& ctx, ConstMat x, const std::vector<float>& alpha, const Conv1d& conv, int64_t pad) {
  Mat y = ctx.mat(conv.rows_out(x.rows + 2 * pad), conv.out);
  Arena::Scope scope(ctx.arena());
  Mat a = padded(ctx, x.rows, x.cols, pad);
  snake(ctx.exec, x, alpha.data(), alpha.data(), a);
  conv1d(ctx, with_padding(a, pad), conv, y);
  return y;
}

// Heads are averaged, then what is left is averaged down to `out` channels, as adaptive_avg_pool1d does.
void pool_heads(ConstMat o, int64_t heads, Mat pooled) {
  const int64_t head_dim = o.cols / heads, out = pooled.cols;
  std::vector<float> mean(static_cast<size_t>(head_dim));
  for (int64_t r = 0; r < o.rows; ++r) {
    for (int64_t k = 0; k < head_dim; ++k) {
      float sum = 0;
      for (int64_t h = 0; h < heads; ++h) sum += o.row(r)[h * head_dim + k];
      mean[static_cast<size_t>(k)] = sum / static_cast<float>(heads);
    }
    for (int64_t i = 0; i < out; ++i) {
      const int64_t from = i * head_dim / out, to = ((i + 1) * head_dim + out - 1) / out;
      float sum = 0;
      for (int64_t k = from; k < to; ++k) sum += mean[static_cast<size_t>(k)];
      pooled.row(r)[i] = sum / static_cast<float>(to - from);
    }
  }
}

// x [T, latent_dim] -> y [T, latent_channels]: proj(norm3 x) + attention(norm1 x), then y += mlp(norm2 y).
void pre_block(const Ctx& ctx, const AudioEncoder& e, const AudioVaeConfig& c, ConstMat x, Mat y) {
  Arena::Scope scope(ctx.arena());
  const int64_t t = x.rows, in = c.latent_dim, out = c.latent_channels;
  const int heads = static_cast<int>(c.num_attention_heads);
  Mat h = ctx.mat(t, in), qkv = ctx.mat(t, 3 * in), o = ctx.mat(t, in), pooled = ctx.mat(t, out);
  norm(ctx, x, e.norm3, h);
  linear(ctx, h, e.proj, y);
  norm(ctx, x, e.norm1, h);
  linear(ctx, h, e.qkv, qkv);
  attention(ctx.exec, {.q = qkv.data,
                       .k = qkv.data + in,
                       .v = qkv.data + 2 * in,
                       .o = o.data,
                       .q_rows = t,
                       .kv_rows = t,
                       .q_stride = qkv.stride,
                       .k_stride = qkv.stride,
                       .v_stride = qkv.stride,
                       .o_stride = o.stride,
                       .heads = heads,
                       .kv_heads = heads,
                       .head_dim = static_cast<int>(in / heads),
                       .scale = 1.0f / std::sqrt(static_cast<float>(in / heads)),
                       .causal = true});
  pool_heads(o, heads, pooled);
  linear_add(ctx, pooled, e.attn_proj, y);

  Mat n = ctx.mat(t, out), gate = ctx.mat(t, 2 * out), value = ctx.mat(t, 2 * out);
  norm(ctx, y, e.norm2, n);
  norm(ctx, n, e.mlp_norm, n);
  linear(ctx, n, e.w0, gate, Activation::gelu_tanh);
  linear(ctx, n, e.w1, value);
  for (int64_t i = 0; i < t * 2 * out; ++i) gate.data[i] *= value.data[i];
  linear_add(ctx, gate, e.w2, y);
}

}  // namespace

AudioEncoder load_audio_encoder(const Weights& w, const Ops& ops, const AudioVaeConfig& c) {
  AudioEncoder e;
  e.conv_in = load_conv1d(w, ops, "encoder.block.0");
  size_t i = 1;
  for (int64_t rate : c.encoder_rates) {
    const std::string block = fmt::format("encoder.block.{}.block.", i++);
    AudioEncoder::Stage stage;
    for (size_t unit = 0; unit < 3; ++unit) {
      const std::string p = fmt::format("{}{}.block.", block, unit);
      stage.units[unit] = {w.vector(p + "0.alpha"), w.vector(p + "2.alpha"), load_conv1d(w, ops, p + "1", 1, kDilations[unit]), load_conv1d(w, ops, p + "3")};
    }
    stage.alpha = w.vector(block + "3.alpha");
    stage.down = load_conv1d(w, ops, block + "4", rate);
    e.stages.push_back(std::move(stage));
  }
  e.alpha_out = w.vector(fmt::format("encoder.block.{}.alpha", i));
  e.conv_out = load_conv1d(w, ops, fmt::format("encoder.block.{}", i + 1));

  e.norm1 = load_norm(w, "pre_block.norm1"), e.norm2 = load_norm(w, "pre_block.norm2"), e.norm3 = load_norm(w, "pre_block.norm3");
  e.mlp_norm = load_norm(w, "pre_block.mlp.norm");
  e.qkv = load_linear(w, ops, "pre_block.attn.qkv", Compute::f32);
  for (const char* part : {"pre_block.attn.q_bias", "pre_block.attn.zero_k_bias", "pre_block.attn.v_bias"}) {
    auto b = w.vector(part);
    e.qkv.bias.insert(e.qkv.bias.end(), b.begin(), b.end());
  }
  e.attn_proj = load_linear(w, ops, "pre_block.attn.proj", Compute::f32);
  e.proj = load_linear(w, ops, "pre_block.proj", Compute::f32);
  e.w0 = load_linear(w, ops, "pre_block.mlp.w0", Compute::f32);
  e.w1 = load_linear(w, ops, "pre_block.mlp.w1", Compute::f32);
  e.w2 = load_linear(w, ops, "pre_block.mlp.w2", Compute::f32);
  e.mean_proj = load_linear(w, ops, "mean_proj", Compute::f32);
  return e;
}

Tensor encode_mono(const Ctx& ctx, const AudioEncoder& e, const AudioVaeConfig& c, std::span<const float> samples) {
  Arena::Scope scope(ctx.arena());
  const auto n = static_cast<int64_t>(samples.size());
  const int64_t edge = e.conv_in.reach() / 2;
  Mat wave = padded(ctx, n, 1, edge);
  std::copy(samples.begin(), samples.end(), wave.data);
  Mat x = ctx.mat(n, e.conv_in.out);
  conv1d(ctx, with_padding(wave, edge), e.conv_in, x);
  for (const AudioEncoder::Stage& s : e.stages) {
    for (const AudioEncoder::Unit& u : s.units) {
      ctx.exec.check_cancel();
      residual_unit(ctx, u, x);
    }
    x = snake_conv(ctx, x, s.alpha, s.down, (s.down.stride + 1) / 2);
  }
  Mat trunk = snake_conv(ctx, x, e.alpha_out, e.conv_out, e.conv_out.reach() / 2);
  Mat y = ctx.mat(trunk.rows, c.latent_channels);
  pre_block(ctx, e, c, trunk, y);
  Tensor means({trunk.rows, c.latent_channels});
  linear(ctx, y, e.mean_proj, means.mat());
  return means;
}

}  // namespace zt::h3
