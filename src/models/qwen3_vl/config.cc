#include "models/qwen3_vl/config.h"

#include "base/json.h"

namespace zt::qwen3_vl {

namespace {

constexpr int64_t kMaxDim = 1 << 20;
using Use = TensorSpec::Use;

TextConfig read_text(const JsonView& j) {
  TextConfig c{};
  c.hidden_size = j.integer("hidden_size", 1, kMaxDim);
  c.intermediate_size = j.integer("intermediate_size", 1, kMaxDim);
  c.num_hidden_layers = j.integer("num_hidden_layers", 1, 1000);
  c.num_attention_heads = j.integer("num_attention_heads", 1, 1024);
  c.num_key_value_heads = j.integer("num_key_value_heads", 1, 1024, c.num_attention_heads);
  c.head_dim = j.integer("head_dim", 2, 1024, c.hidden_size / c.num_attention_heads);
  c.vocab_size = j.integer("vocab_size", 1, int64_t{1} << 24);
  c.rms_norm_eps = static_cast<float>(j.number("rms_norm_eps", 0, 1));
  if (c.num_attention_heads % c.num_key_value_heads)
    fail(ErrorKind::model, "{}: {} attention heads cannot share {} key-value heads evenly", j.origin(), c.num_attention_heads, c.num_key_value_heads);
  if (c.head_dim % 2) fail(ErrorKind::model, "{}: \"head_dim\" is {}, wanted an even number", j.origin(), c.head_dim);
  if (j.boolean("attention_bias", false)) fail(ErrorKind::model, "{}: \"attention_bias\" is true; H3's text encoder has none", j.origin());
  const char* rope = j.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  c.rope_theta = j.has("rope_theta") ? j.number("rope_theta", 1, 1e12) : j.child(rope).number("rope_theta", 1, 1e12);
  auto section = j.child(rope).integers("mrope_section", 0, c.head_dim);
  if (section.size() != 3 || section[0] + section[1] + section[2] != c.head_dim / 2)
    fail(ErrorKind::model, "{}: \"mrope_section\" wants three counts that add to head_dim / 2 = {}", j.origin(), c.head_dim / 2);
  c.mrope_section = {section[0], section[1], section[2]};
  return c;
}

VisionConfig read_vision(const JsonView& j) {
  VisionConfig c{};
  c.hidden_size = j.integer("hidden_size", 1, kMaxDim);
  c.intermediate_size = j.integer("intermediate_size", 1, kMaxDim);
  c.depth = j.integer("depth", 1, 1000);
  c.num_heads = j.integer("num_heads", 1, 1024);
  c.num_position_embeddings = j.integer("num_position_embeddings", 1, kMaxDim);
  c.out_hidden_size = j.integer("out_hidden_size", 1, kMaxDim);
  c.patch_size = j.integer("patch_size", 1, 256);
  c.spatial_merge_size = j.integer("spatial_merge_size", 1, 8);
  c.temporal_patch_size = j.integer("temporal_patch_size", 1, 8);
  c.in_channels = j.integer("in_channels", 3, 3, 3);
  c.deepstack_visual_indexes = j.integers("deepstack_visual_indexes", 0, c.depth - 1);
  if (c.hidden_size % c.num_heads || (c.hidden_size / c.num_heads) % 4)
    fail(ErrorKind::model, "{}: hidden_size {} over {} heads; a head must have a multiple of 4 channels", j.origin(), c.hidden_size, c.num_heads);
  return c;
}

void vision_specs(const VisionConfig& v, TensorSpecs& out) {
  const std::string root = "model.visual.";
  auto matrix = [&](const std::string& n, int64_t o, int64_t i) {
    out.push_back({root + n + ".weight", {o, i}, Use::matrix});
    out.push_back({root + n + ".bias", {o}, Use::vector});
  };
  auto norm = [&](const std::string& n, int64_t d) {
    out.push_back({root + n + ".weight", {d}, Use::vector});
    out.push_back({root + n + ".bias", {d}, Use::vector});
  };
  out.push_back({root + "patch_embed.proj.weight", {v.hidden_size, v.in_channels, v.temporal_patch_size, v.patch_size, v.patch_size}, Use::matrix});
  out.push_back({root + "patch_embed.proj.bias", {v.hidden_size}, Use::vector});
  out.push_back({root + "pos_embed.weight", {v.num_position_embeddings, v.hidden_size}, Use::vector});
  for (int64_t i = 0; i < v.depth; ++i) {
    const std::string b = fmt::format("blocks.{}.", i);
    norm(b + "norm1", v.hidden_size);
    norm(b + "norm2", v.hidden_size);
    matrix(b + "attn.qkv", 3 * v.hidden_size, v.hidden_size);
    matrix(b + "attn.proj", v.hidden_size, v.hidden_size);
    matrix(b + "mlp.linear_fc1", v.intermediate_size, v.hidden_size);
    matrix(b + "mlp.linear_fc2", v.hidden_size, v.intermediate_size);
  }
  auto merger = [&](const std::string& n, int64_t norm_size) {
    norm(n + ".norm", norm_size);
    matrix(n + ".linear_fc1", v.merged_size(), v.merged_size());
    matrix(n + ".linear_fc2", v.out_hidden_size, v.merged_size());
  };
  merger("merger", v.hidden_size);
  for (size_t i = 0; i < v.deepstack_visual_indexes.size(); ++i) merger(fmt::format("deepstack_merger_list.{}", i), v.merged_size());
}

}  // namespace

Config read_config(const std::string& path) {
  Json json = read_json(path);
  JsonView j(json, path);
  if (j.has("model_type") && j.text("model_type") != "qwen3_vl")
    fail(ErrorKind::model, "{}: model_type is \"{}\", wanted \"qwen3_vl\"", path, j.text("model_type"));
  Config c{read_text(j.child("text_config")), read_vision(j.child("vision_config"))};
  if (c.vision.out_hidden_size != c.text.hidden_size)
    fail(ErrorKind::model, "{}: vision out_hidden_size {} differs from text hidden_size {}", path, c.vision.out_hidden_size, c.text.hidden_size);
  return c;
}

TensorSpecs tensor_specs(const Config& config, int64_t layers_used) {
  const TextConfig& t = config.text;
  TensorSpecs out;
  const std::string root = "model.language_model.";
  out.push_back({root + "embed_tokens.weight", {t.vocab_size, t.hidden_size}, Use::vector});
  const int64_t q = t.num_attention_heads * t.head_dim, kv = t.num_key_value_heads * t.head_dim;
  for (int64_t i = 0; i < t.num_hidden_layers; ++i) {
    const std::string l = fmt::format("{}layers.{}.", root, i);
    const Use m = i < layers_used ? Use::matrix : Use::dead, v = i < layers_used ? Use::vector : Use::dead;
    out.push_back({l + "input_layernorm.weight", {t.hidden_size}, v});
    out.push_back({l + "post_attention_layernorm.weight", {t.hidden_size}, v});
    out.push_back({l + "self_attn.q_proj.weight", {q, t.hidden_size}, m});
    out.push_back({l + "self_attn.k_proj.weight", {kv, t.hidden_size}, m});
    out.push_back({l + "self_attn.v_proj.weight", {kv, t.hidden_size}, m});
    out.push_back({l + "self_attn.o_proj.weight", {t.hidden_size, q}, m});
    out.push_back({l + "self_attn.q_norm.weight", {t.head_dim}, v});
    out.push_back({l + "self_attn.k_norm.weight", {t.head_dim}, v});
    out.push_back({l + "mlp.gate_proj.weight", {t.intermediate_size, t.hidden_size}, m});
    out.push_back({l + "mlp.up_proj.weight", {t.intermediate_size, t.hidden_size}, m});
    out.push_back({l + "mlp.down_proj.weight", {t.hidden_size, t.intermediate_size}, m});
  }
  out.push_back({root + "norm.weight", {t.hidden_size}, Use::dead});
  out.push_back({"lm_head.weight", {t.vocab_size, t.hidden_size}, Use::dead});
  vision_specs(config.vision, out);
  // The graph editors' files leave out a level of the path.
  for (TensorSpec& s : out)
    for (const auto& [ours, theirs] : {std::pair{root, std::string("model.")}, {std::string("model.visual."), std::string("visual.")}})
      if (s.name.starts_with(ours)) s.sources = {{theirs + s.name.substr(ours.size())}};
  return out;
}

}  // namespace zt::qwen3_vl
