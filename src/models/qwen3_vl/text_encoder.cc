#include "models/qwen3_vl/text_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "models/qwen3_vl/config.h"
#include "models/qwen3_vl/vision_tower.h"
#include "nn/linear.h"

namespace zt::qwen3_vl {

namespace {

struct TextLayer {
  std::vector<float> input_norm, post_norm, q_norm, k_norm;
  Linear qkv, o, gate_up, down;
};

TextLayer load_layer(const Weights& w, const Ops& ops, int64_t i, Compute compute) {
  const std::string l = fmt::format("model.language_model.layers.{}.", i);
  return {w.vector(l + "input_layernorm.weight"),
          w.vector(l + "post_attention_layernorm.weight"),
          w.vector(l + "self_attn.q_norm.weight"),
          w.vector(l + "self_attn.k_norm.weight"),
          load_stacked(w, ops, {l + "self_attn.q_proj", l + "self_attn.k_proj", l + "self_attn.v_proj"}, compute),
          load_linear(w, ops, l + "self_attn.o_proj", compute),
          load_gated(w, ops, {l + "mlp.gate_proj", l + "mlp.up_proj"}, false, compute),
          load_linear(w, ops, l + "mlp.down_proj", compute)};
}

class Encoder final : public TextEncoder {
 public:
  Encoder(const Ops& ops, const std::string& folder, int64_t layers_used, Compute compute)
      : config_(read_config(folder + "/config.json")),
        weights_(open_checkpoint(folder), tensor_specs(config_, layers_used), folder) {
    if (layers_used > config_.text.num_hidden_layers)
      fail(ErrorKind::model, "{}: has {} text layers, but hidden state {} is wanted; the checkpoint is cut too short", folder,
           config_.text.num_hidden_layers, layers_used);
    for (int64_t i = 0; i < layers_used; ++i) layers_.push_back(load_layer(weights_, ops, i, compute));
    tower_ = load_vision_tower(weights_, ops, config_.vision, compute);
    weights_.release_pages();
  }

  int64_t hidden_size() const override { return config_.text.hidden_size; }
  int layer_count() const override { return static_cast<int>(layers_.size()); }
  Tensor encode(const Ctx& ctx, const TextInput& input, int layers) const override;

 private:
  void embed(const TextInput& input, Mat x) const;
  std::vector<Tensor> place_vision(const Ctx& ctx, const TextInput& input, Mat x) const;
  void run_layer(const Ctx& ctx, const TextLayer& l, ConstMat cosine, ConstMat sine, Mat x) const;

  Config config_;
  Weights weights_;
  std::vector<TextLayer> layers_;
  VisionTower tower_;
};

void Encoder::embed(const TextInput& input, Mat x) const {
  for (int64_t i = 0; i < x.rows; ++i) {
    int64_t id = input.token_ids[static_cast<size_t>(i)];
    if (id < 0 || id >= config_.text.vocab_size)
      fail(ErrorKind::model, "{}: token id {} is outside the embedding's {} rows; tokenizer and text encoder do not belong together",
           weights_.component(), id, config_.text.vocab_size);
    weights_.row("model.language_model.embed_tokens.weight", id, x.row(i));
  }
}

// Puts merged vision features over their pad rows; returns the DeepStack features spread to [N, hidden] (zero on other rows).
std::vector<Tensor> Encoder::place_vision(const Ctx& ctx, const TextInput& input, Mat x) const {
  std::vector<Tensor> deep;
  for (int kind : {1, 2}) {   // image pads, then video pads
    std::vector<const VisionInput*> inputs;
    std::vector<int32_t> grid;
    for (const VisionInput& v : input.vision)
      if (v.video == (kind == 2)) {
        inputs.push_back(&v);
        for (int64_t g : {temporal_units(config_.vision, v), int64_t{v.grid_h}, int64_t{v.grid_w}}) grid.push_back(static_cast<int32_t>(g));
      }
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < x.rows; ++i)
      if (input.mm_token_type_ids[static_cast<size_t>(i)] == kind) rows.push_back(i);
    if (inputs.empty()) {
      // Without any vision input a pad token that the prompt spells out is an ordinary token, as in the reference.
      if (!rows.empty() && !input.vision.empty())
        fail(ErrorKind::request, "the prompt holds {} {} pad tokens that belong to no {}; take <|{}_pad|> out of the prompt", rows.size(),
             kind == 1 ? "image" : "video", kind == 1 ? "picture" : "video", kind == 1 ? "image" : "video");
      continue;
    }
    VisionFeatures f = run_vision_tower(ctx, tower_, inputs);
    if (f.merged.dim(0) != static_cast<int64_t>(rows.size()))
      fail(ErrorKind::request, "the presentation has {} {} pad tokens for {} vision tokens; take <|{}_pad|> out of the prompt", rows.size(),
           kind == 1 ? "image" : "video", f.merged.dim(0), kind == 1 ? "image" : "video");
    if (ctx.tap) {
      const std::string tag = kind == 1 ? "vision.image" : "vision.video";
      ctx.tap(tag + "_grid_thw", {grid.data(), DType::i32, {static_cast<int64_t>(inputs.size()), 3}});
      ctx.tap(tag + ".merged", f.merged.view());
      for (size_t i = 0; i < f.deepstack.size(); ++i) ctx.tap(fmt::format("{}.deepstack{}", tag, i), f.deepstack[i].view());
    }
    if (deep.empty())
      for (size_t i = 0; i < f.deepstack.size(); ++i) deep.emplace_back(Shape{x.rows, x.cols});
    for (size_t j = 0; j < rows.size(); ++j) {
      const size_t bytes = static_cast<size_t>(x.cols) * sizeof(float);
      std::memcpy(x.row(rows[j]), f.merged.mat().row(static_cast<int64_t>(j)), bytes);
      for (size_t i = 0; i < deep.size(); ++i) std::memcpy(deep[i].mat().row(rows[j]), f.deepstack[i].mat().row(static_cast<int64_t>(j)), bytes);
    }
  }
  return deep;
}

void Encoder::run_layer(const Ctx& ctx, const TextLayer& l, ConstMat cosine, ConstMat sine, Mat x) const {
  const TextConfig& c = config_.text;
  const int64_t q = c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim, half = c.head_dim / 2;
  const int heads = static_cast<int>(c.num_attention_heads), kv_heads = static_cast<int>(c.num_key_value_heads), d = static_cast<int>(c.head_dim);
  Arena::Scope scope(ctx.arena());
  const Activations y = activations_for(ctx, l.qkv, x.rows), o = activations_for(ctx, l.o, x.rows);
  Mat qkv = ctx.mat(x.rows, q + 2 * kv);
  rms_norm(ctx.exec, x, l.input_norm.data(), c.rms_norm_eps, y);
  linear(ctx, y, l.qkv, qkv);
  head_norm_rope(ctx.exec, qkv.data, x.rows, qkv.stride, heads, d, c.rms_norm_eps, l.q_norm.data(), cosine.data, sine.data, half);
  head_norm_rope(ctx.exec, qkv.data + q, x.rows, qkv.stride, kv_heads, d, c.rms_norm_eps, l.k_norm.data(), cosine.data, sine.data, half);
  AttentionArgs a;
  a.q = qkv.data, a.k = qkv.data + q, a.v = qkv.data + q + kv, a.o = o.data, a.o_tiles = o.tiles;
  a.q_rows = a.kv_rows = x.rows;
  a.q_stride = a.k_stride = a.v_stride = qkv.stride, a.o_stride = o.stride;
  a.heads = heads, a.kv_heads = kv_heads, a.head_dim = d;
  a.scale = 1.0f / std::sqrt(static_cast<float>(d));
  a.causal = true;
  a.compute = l.qkv.weight.compute;
  attention(ctx.exec, a);
  linear_add(ctx, o, l.o, x);
  const Activations h = activations_for(ctx, l.down, x.rows);
  rms_norm(ctx.exec, x, l.post_norm.data(), c.rms_norm_eps, y);
  linear_swiglu(ctx, y, l.gate_up, h);
  linear_add(ctx, h, l.down, x);
}

Tensor Encoder::encode(const Ctx& ctx, const TextInput& input, int layers) const {
  const TextConfig& c = config_.text;
  const int64_t n = static_cast<int64_t>(input.token_ids.size()), half = c.head_dim / 2;
  Tensor x({n, c.hidden_size});
  if (n == 0) return x;
  embed(input, x.mat());
  std::vector<Tensor> deep = place_vision(ctx, input, x.mat());
  std::vector<int32_t> position = mrope_position_ids(input, config_.vision.spatial_merge_size, config_.vision.temporal_patch_size);
  if (ctx.tap) {
    if (!input.vision.empty()) ctx.tap("mrope_position_ids", {position.data(), DType::i32, {3, n}});
    ctx.tap("text_inputs_embeds", x.view());
  }
  Arena::Scope scope(ctx.arena());
  Mat cosine = ctx.mat(n, half), sine = ctx.mat(n, half);
  for (int64_t j = 0; j < half; ++j) {
    // Interleaved sections: of every three frequencies one follows t, one h, one w, while h and w last.
    int axis = static_cast<int>(j % 3);
    if (axis && j >= 3 * c.mrope_section[static_cast<size_t>(axis)]) axis = 0;
    float inv = 1.0f / std::pow(static_cast<float>(c.rope_theta), static_cast<float>(2 * j) / static_cast<float>(c.head_dim));
    for (int64_t i = 0; i < n; ++i) {
      float angle = static_cast<float>(position[static_cast<size_t>(axis * n + i)]) * inv;
      cosine.row(i)[j] = std::cos(angle);
      sine.row(i)[j] = std::sin(angle);
    }
  }
  for (int i = 0; i < layers; ++i) {
    ctx.exec.check_cancel();
    run_layer(ctx, layers_[static_cast<size_t>(i)], cosine, sine, x.mat());
    if (ctx.tap && (i == 0 || i == 2)) ctx.tap(fmt::format("text_layer{}_out", i), x.view());
    // The hidden state is read before the DeepStack addition of its own layer.
    if (i + 1 < layers && static_cast<size_t>(i) < deep.size()) add_scaled(ctx.exec, deep[static_cast<size_t>(i)].mat(), nullptr, x.mat());
  }
  return x;
}

}  // namespace

std::vector<int32_t> mrope_position_ids(const TextInput& input, int64_t merge, int64_t temporal_patch) {
  const size_t n = input.token_ids.size();
  std::vector<int32_t> out(3 * n);
  std::array<size_t, 2> next{0, 0};      // next vision input of each kind
  std::array<int64_t, 2> unit{0, 0};     // temporal units of it already placed
  int32_t p = 0;
  for (size_t i = 0; i < n;) {
    int kind = input.vision.empty() ? 0 : input.mm_token_type_ids[i];
    if (kind == 0) {
      for (int axis = 0; axis < 3; ++axis) out[static_cast<size_t>(axis) * n + i] = p;
      ++p, ++i;
      continue;
    }
    size_t k = static_cast<size_t>(kind - 1);
    while (next[k] < input.vision.size() && input.vision[next[k]].video != (kind == 2)) ++next[k];
    if (next[k] == input.vision.size()) fail(ErrorKind::request, "the prompt holds more pad tokens than pictures; take vision pad tokens out of it");
    const VisionInput& v = input.vision[next[k]];
    const int32_t gh = static_cast<int32_t>(v.grid_h / merge), gw = static_cast<int32_t>(v.grid_w / merge);
    size_t end = i;
    while (end < n && input.mm_token_type_ids[end] == kind) ++end;
    if (end - i != static_cast<size_t>(gh) * static_cast<size_t>(gw))
      fail(ErrorKind::request, "a run of {} vision pad tokens stands where {} belong; take vision pad tokens out of the prompt", end - i, gh * gw);
    for (int32_t r = 0; r < gh; ++r)
      for (int32_t c = 0; c < gw; ++c, ++i) out[i] = p, out[n + i] = p + r, out[2 * n + i] = p + c;
    p += std::max(gh, gw);
    int64_t units = v.video ? (static_cast<int64_t>(v.frames.size()) + temporal_patch - 1) / temporal_patch : 1;
    if (++unit[k] >= units) ++next[k], unit[k] = 0;
  }
  return out;
}

std::unique_ptr<TextEncoder> load_text_encoder(const Ops& ops, const std::string& folder, int64_t layers_used, Compute compute) {
  return std::make_unique<Encoder>(ops, folder, layers_used, compute);
}

}  // namespace zt::qwen3_vl
