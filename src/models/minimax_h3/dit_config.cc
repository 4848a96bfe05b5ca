#include <cmath>
#include <filesystem>

#include "base/json.h"
#include "models/minimax_h3/dit.h"

namespace zt::h3 {

namespace {
constexpr int64_t kMaxDim = 1 << 20;
using Use = TensorSpec::Use;
constexpr const char *kDiffusersClass = "MiniMaxH3Transformer3DModel", *kReleasedClass = "MiniMaxH3DiTModel";
constexpr const char* kCurve = "adaln_t_table";

// Dimension `axis` of a tensor that every checkpoint of other spellings has.
int64_t dim_of(const WeightFiles& files, const std::string& name, size_t axis) {
  const Stored* t = files.find(name);
  if (!t) fail(ErrorKind::model, "{}: has no tensor {}, which tells a dimension; is it a MiniMax-H3 transformer of another layout, or one without its config.json?",
               files.origin(), name);
  if (t->shape.size() <= axis || t->shape[axis] < 1 || t->shape[axis] > 64 * kMaxDim)
    fail(ErrorKind::model, "{}: tensor {} has shape {}, wanted a matrix", files.origin(), name, to_string(t->shape));
  return t->shape[axis];
}

int64_t count_blocks(const WeightFiles& files, const std::string& prefix) {
  int64_t n = 0;
  while (files.find(fmt::format("{}{}.norm1.weight", prefix, n))) ++n;
  return n;
}

// The tensors' own dimensions; what no shape tells are the constants of the released model.
DitConfig infer_config(const WeightFiles& f) {
  DitConfig c{};
  c.patch_h = c.patch_w = 2;
  c.hidden_size = dim_of(f, "video_patch_proj.weight", 0);
  c.in_channels = dim_of(f, "video_patch_proj.weight", 1) / (c.patch_h * c.patch_w);
  c.audio_in_channels = dim_of(f, "audio_patch_proj.weight", 1);
  c.text_dim = dim_of(f, "condition_proj.weight", 1);
  c.attention_head_dim = dim_of(f, "blocks.0.attn.q_norm.weight", 0);
  c.num_attention_heads = dim_of(f, "blocks.0.attn.out_proj.weight", 1) / c.attention_head_dim;
  c.ffn_dim = dim_of(f, "blocks.0.mlp.fc2.weight", 1);
  c.num_layers = count_blocks(f, "blocks.");
  c.num_refiner_layers = count_blocks(f, "token_refiner.blocks.");
  if (!f.find(kCurve)) {
    c.freq_dim = dim_of(f, "time_embedder.proj_in.weight", 1);
    c.time_embed_hidden_dim = dim_of(f, "time_embedder.proj_in.weight", 0);
    c.time_embed_dim = dim_of(f, "time_embedder.proj_out.weight", 0);
  }
  c.rope_freq_dim = f.find("rope.inv_freq") ? dim_of(f, "rope.inv_freq", 0) : 16;
  c.rope_theta = 1e4;
  c.norm_eps = c.qk_norm_eps = c.final_norm_eps = 1e-5f;
  return c;
}

void check(const DitConfig& c, const std::string& origin) {
  if (6 * c.rope_freq_dim > c.attention_head_dim)
    fail(ErrorKind::model, "{}: rope_freq_dim {} rotates {} channels, but a head has {}", origin, c.rope_freq_dim, 6 * c.rope_freq_dim, c.attention_head_dim);
  if (c.freq_dim % 2) fail(ErrorKind::model, "{}: freq_dim is {}, wanted an even number", origin, c.freq_dim);
  if (c.has_curve() && c.curve_points < 2) fail(ErrorKind::model, "{}: tensor {} has {} rows, wanted at least 2", origin, kCurve, c.curve_points);
}

}  // namespace

DitConfig parse_dit_config(const JsonView& j) {
  const std::string& path = j.origin();
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
  check(c, path);
  return c;
}

DitSpelling stated_spelling(const std::string& folder) {
  const std::string path = folder + "/config.json";
  std::error_code e;
  if (!std::filesystem::exists(path, e)) return DitSpelling::unstated;
  const Json json = read_json(path);
  const std::string kind = JsonView(json, path).text("_class_name", kDiffusersClass);
  if (kind != kDiffusersClass && kind != kReleasedClass)
    fail(ErrorKind::model, "{}: _class_name is \"{}\", wanted \"{}\" or \"{}\"", path, kind, kDiffusersClass, kReleasedClass);
  return kind == kDiffusersClass ? DitSpelling::diffusers : DitSpelling::released;
}

DitConfig read_dit_config(const std::string& folder, const WeightFiles& files) {
  const std::string path = folder + "/config.json";
  DitConfig c{};
  if (stated_spelling(folder) == DitSpelling::diffusers) {
    const Json json = read_json(path);
    c = parse_dit_config(JsonView(json, path));
  } else {
    c = infer_config(files);
  }
  if (files.find(kCurve)) c.curve_points = dim_of(files, kCurve, 0), c.curve_rank = dim_of(files, kCurve, 1);
  check(c, files.origin());
  return c;
}

std::string dit_config_text(const DitConfig& c, DitSpelling spelling) {
  auto shortest = [](float v) { return std::stod(fmt::format("{}", v)); };   // 1e-05, not what a double makes of it
  Json j;
  if (spelling == DitSpelling::released)
    j = {{"_class_name", kReleasedClass},
         {"hidden_size", c.hidden_size},
         {"num_layers", c.num_layers},
         {"token_refiner_num_layers", c.num_refiner_layers},
         {"ffn_hidden_size", c.ffn_dim},
         {"latents_dim", c.in_channels},
         {"audio_latents_dim", c.audio_in_channels},
         {"timestep_input_dim", c.freq_dim},
         {"time_embed_hidden_size", c.time_embed_hidden_dim},
         {"adaln_out_features", 18 * c.hidden_size},
         {"final_adaln_out_features", 2 * c.hidden_size},
         {"rope_inv_freq_len", c.rope_freq_dim}};
  else
    j = {{"_class_name", kDiffusersClass},
         {"num_attention_heads", c.num_attention_heads},
         {"attention_head_dim", c.attention_head_dim},
         {"hidden_size", c.hidden_size},
         {"num_layers", c.num_layers},
         {"num_refiner_layers", c.num_refiner_layers},
         {"ffn_dim", c.ffn_dim},
         {"in_channels", c.in_channels},
         {"audio_in_channels", c.audio_in_channels},
         {"patch_size", {1, c.patch_h, c.patch_w}},
         {"text_dim", c.text_dim},
         {"freq_dim", c.freq_dim},
         {"time_embed_hidden_dim", c.time_embed_hidden_dim},
         {"time_embed_dim", c.time_embed_dim},
         {"rope_freq_dim", c.rope_freq_dim},
         {"rope_theta", c.rope_theta},
         {"norm_eps", shortest(c.norm_eps)},
         {"qk_norm_eps", shortest(c.qk_norm_eps)},
         {"final_norm_eps", shortest(c.final_norm_eps)}};
  return j.dump(1) + "\n";
}

std::vector<float> rope_frequencies(const DitConfig& c) {
  std::vector<float> out;
  const auto n = static_cast<double>(c.rope_freq_dim);
  for (int64_t i = 0; i < c.rope_freq_dim; ++i) out.push_back(static_cast<float>(1 / std::pow(c.rope_theta, static_cast<double>(i) / n)));
  return out;
}

// Beside our names stand those of the released shards, the graph editors' files and GGUF, which agree but for the order of q, k, v.
TensorSpecs dit_tensor_specs(const DitConfig& c) {
  using Rows = TensorSource::Rows;
  TensorSpecs out;
  const int64_t h = c.hidden_size;
  auto add = [&](const std::string& name, const std::string& other, Shape shape, Use use, Rows rows = Rows::same, int64_t part = 0) {
    out.push_back({name, std::move(shape), use, {{other, rows, part, c.num_attention_heads}}});
  };
  auto with_bias = [&](const std::string& n, const std::string& other, int64_t o, int64_t i, Use use) {
    add(n + ".weight", other + ".weight", {o, i}, use);
    add(n + ".bias", other + ".bias", {o}, Use::vector);
  };
  auto vector = [&](const std::string& n, const std::string& other, int64_t d) { add(n + ".weight", other + ".weight", {d}, Use::vector); };
  auto attention_and_ffn = [&](const std::string& b, const std::string& other) {
    vector(b + "norm1", other + "norm1", h);
    vector(b + "norm2", other + "norm2", h);
    int64_t part = 0;
    for (const char* p : {"to_q", "to_k", "to_v"})
      add(b + "attn." + p + ".weight", other + "attn.qkv_proj.weight", {c.inner_dim(), h}, Use::matrix, Rows::fused, part++);
    vector(b + "attn.norm_q", other + "attn.q_norm", c.attention_head_dim);
    vector(b + "attn.norm_k", other + "attn.k_norm", c.attention_head_dim);
    add(b + "attn.to_out.0.weight", other + "attn.out_proj.weight", {h, c.inner_dim()}, Use::matrix);
    add(b + "ff.net.0.proj.weight", other + "mlp.fc1.weight", {2 * c.ffn_dim, h}, Use::matrix, Rows::halves_swapped);
    add(b + "ff.net.2.weight", other + "mlp.fc2.weight", {h, c.ffn_dim}, Use::matrix);
  };
  with_bias("proj_in", "video_patch_proj", h, c.patch_values(), Use::island);
  with_bias("audio_proj_in", "audio_patch_proj", h, c.audio_in_channels, Use::island);
  with_bias("context_embedder", "condition_proj", h, c.text_dim, Use::matrix);
  const Use adaln = c.has_curve() ? Use::island : Use::matrix;   // a few columns cost nothing in float32
  if (c.has_curve()) {
    out.push_back({kCurve, {c.curve_points, c.curve_rank}, Use::vector});
  } else {
    with_bias("time_embedder.linear_1", "time_embedder.proj_in", c.time_embed_hidden_dim, c.freq_dim, Use::island);
    with_bias("time_embedder.linear_2", "time_embedder.proj_out", c.time_embed_dim, c.time_embed_hidden_dim, Use::island);
  }
  for (int64_t i = 0; i < c.num_refiner_layers; ++i)
    attention_and_ffn(fmt::format("token_refiner.refiner_blocks.{}.", i), fmt::format("token_refiner.blocks.{}.", i));
  vector("token_refiner.final_norm", "token_refiner.final_norm", h);
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string b = fmt::format("transformer_blocks.{}.", i), other = fmt::format("blocks.{}.", i);
    attention_and_ffn(b, other);
    with_bias(b + "adaln_proj.linear", other + "adaln_proj.linear", 18 * h, c.adaln_dim(), adaln);
  }
  vector("norm_out.norm", "final_layer.norm", h);
  with_bias("norm_out.linear", "final_layer.adaln_proj.linear", 2 * h, c.adaln_dim(), adaln);
  with_bias("proj_out", "final_layer.video_out", c.patch_values(), h, Use::island);
  with_bias("audio_proj_out", "final_layer.audio_out", c.audio_in_channels, h, Use::island);
  out.push_back({"rope.inv_freq", {c.rope_freq_dim}, Use::foreign});   // the formula's values
  return out;
}

}  // namespace zt::h3
