#include "base/json.h"
#include "models/minimax_h3/dit.h"

namespace zt::h3 {

namespace {
constexpr int64_t kMaxDim = 1 << 20;
using Use = TensorSpec::Use;
}  // namespace

DitConfig read_dit_config(const std::string& path) {
  Json json = read_json(path);
  JsonView j(json, path);
  if (j.has("_class_name") && j.text("_class_name") != "MiniMaxH3Transformer3DModel")
    fail(ErrorKind::model, "{}: _class_name is \"{}\", wanted \"MiniMaxH3Transformer3DModel\"", path, j.text("_class_name"));
  DitConfig c{};
  c.num_attention_heads = j.integer("num_attention_heads", 1, 1024);
  c.attention_head_dim = j.integer("attention_head_dim", 2, 1024);
  c.hidden_size = j.integer("hidden_size", 1, kMaxDim);
  c.num_layers = j.integer("num_layers", 1, 1000);
  c.num_refiner_layers = j.integer("num_refiner_layers", 0, 1000);
  c.ffn_dim = j.integer("ffn_dim", 1, kMaxDim);
  c.in_channels = j.integer("in_channels", 1, 1024);
  c.audio_in_channels = j.integer("audio_in_channels", 1, 1024);
  c.text_dim = j.integer("text_dim", 1, kMaxDim);
  c.freq_dim = j.integer("freq_dim", 2, kMaxDim);
  c.time_embed_hidden_dim = j.integer("time_embed_hidden_dim", 1, kMaxDim);
  c.time_embed_dim = j.integer("time_embed_dim", 1, kMaxDim);
  c.rope_freq_dim = j.integer("rope_freq_dim", 1, 512);
  c.rope_theta = j.number("rope_theta", 1, 1e12);
  c.norm_eps = static_cast<float>(j.number("norm_eps", 0, 1));
  c.qk_norm_eps = static_cast<float>(j.number("qk_norm_eps", 0, 1));
  c.final_norm_eps = static_cast<float>(j.number("final_norm_eps", 0, 1));
  auto patch = j.integers("patch_size", 1, 16);
  if (patch.size() != 3 || patch[0] != 1) fail(ErrorKind::model, "{}: \"patch_size\" wants [1, h, w]", path);
  c.patch_h = patch[1], c.patch_w = patch[2];
  if (6 * c.rope_freq_dim > c.attention_head_dim)
    fail(ErrorKind::model, "{}: rope_freq_dim {} rotates {} channels, but a head has {}", path, c.rope_freq_dim, 6 * c.rope_freq_dim, c.attention_head_dim);
  if (c.freq_dim % 2) fail(ErrorKind::model, "{}: \"freq_dim\" is {}, wanted an even number", path, c.freq_dim);
  return c;
}

TensorSpecs dit_tensor_specs(const DitConfig& c) {
  TensorSpecs out;
  const int64_t h = c.hidden_size;
  auto with_bias = [&](const std::string& n, int64_t o, int64_t i, Use use) {
    out.push_back({n + ".weight", {o, i}, use});
    out.push_back({n + ".bias", {o}, Use::vector});
  };
  auto vector = [&](const std::string& n, int64_t d) { out.push_back({n + ".weight", {d}, Use::vector}); };
  auto attention_and_ffn = [&](const std::string& b) {
    vector(b + "norm1", h);
    vector(b + "norm2", h);
    for (const char* p : {"to_q", "to_k", "to_v"}) out.push_back({b + "attn." + p + ".weight", {c.inner_dim(), h}, Use::matrix});
    vector(b + "attn.norm_q", c.attention_head_dim);
    vector(b + "attn.norm_k", c.attention_head_dim);
    out.push_back({b + "attn.to_out.0.weight", {h, c.inner_dim()}, Use::matrix});
    out.push_back({b + "ff.net.0.proj.weight", {2 * c.ffn_dim, h}, Use::matrix});
    out.push_back({b + "ff.net.2.weight", {h, c.ffn_dim}, Use::matrix});
  };
  with_bias("proj_in", h, c.patch_values(), Use::island);
  with_bias("audio_proj_in", h, c.audio_in_channels, Use::island);
  with_bias("context_embedder", h, c.text_dim, Use::matrix);
  with_bias("time_embedder.linear_1", c.time_embed_hidden_dim, c.freq_dim, Use::island);
  with_bias("time_embedder.linear_2", c.time_embed_dim, c.time_embed_hidden_dim, Use::island);
  for (int64_t i = 0; i < c.num_refiner_layers; ++i) attention_and_ffn(fmt::format("token_refiner.refiner_blocks.{}.", i));
  vector("token_refiner.final_norm", h);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string b = fmt::format("transformer_blocks.{}.", i);
    attention_and_ffn(b);
    with_bias(b + "adaln_proj.linear", 18 * h, c.time_embed_dim, Use::matrix);
  }
  vector("norm_out.norm", h);
  with_bias("norm_out.linear", 2 * h, c.time_embed_dim, Use::matrix);
  with_bias("proj_out", c.patch_values(), h, Use::island);
  with_bias("audio_proj_out", c.audio_in_channels, h, Use::island);
  return out;
}

}  // namespace zt::h3
