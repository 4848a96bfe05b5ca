#include "pipeline/inspect.h"

#include <cmath>
#include <filesystem>
#include <functional>

#include "models/minimax_h3/audio_vae_config.h"
#include "models/minimax_h3/dit.h"
#include "models/minimax_h3/video_vae_config.h"
#include "models/qwen3_vl/config.h"
#include "models/qwen3_vl/processor.h"
#include "text/tokenizer.h"

namespace zt {

namespace {

constexpr float kLargestSane = 1e5f;      // released tensors stay under 1e3; beyond this a scale was lost
constexpr int64_t kChunk = 1 << 20;

using Dims = std::vector<std::pair<std::string, std::string>>;

// Counts of what no healthy tensor has.
void check_values(const NamedView& t, const std::string& file, std::vector<std::string>& problems) {
  int64_t bad = 0, zeros = 0;
  float largest = 0;
  std::vector<float> values;
  const int64_t n = t.view.count();
  for (int64_t at = 0; at < n; at += kChunk) {
    const int64_t part = std::min(kChunk, n - at);
    values.resize(static_cast<size_t>(part));
    to_float32({static_cast<const char*>(t.view.data) + at * dtype_bytes(t.view.dtype), t.view.dtype, {part}}, values.data());
    for (float v : values) {
      if (!std::isfinite(v)) ++bad;
      else largest = std::max(largest, std::fabs(v));
      zeros += v == 0.0f;
    }
  }
  if (bad) problems.push_back(fmt::format("{}: tensor {}: {} of {} values are NaN or infinite", file, t.name, bad, n));
  else if (largest > kLargestSane) problems.push_back(fmt::format("{}: tensor {}: largest value {:g}; a scale was lost", file, t.name, largest));
  const bool may_be_zero = t.name.ends_with("bias") || t.name.ends_with("beta") || t.name.ends_with("alpha");
  if (n > 16 && zeros == n && !may_be_zero) problems.push_back(fmt::format("{}: tensor {}: all {} values are zero", file, t.name, n));
}

// Holds the files of one component against its table.
void check_component(ComponentReport& c, const std::string& folder, const std::string& stem, const TensorSpecs& specs, bool verify, int64_t& checked) {
  SafetensorsSet files = open_weights(folder, stem);
  c.files = files.files().size();
  c.tensors = files.size();
  c.file_bytes = files.total_bytes();
  std::unordered_map<std::string, const TensorSpec*> table;
  for (const TensorSpec& s : specs) {
    table.emplace(s.name, &s);
    const int64_t n = element_count(s.shape);
    const bool dead = s.use == TensorSpec::Use::dead;
    c.parameters += n;
    if (dead) {
      c.dead_parameters += n;
    } else {
      c.memory_exact += 4 * n;
      c.memory_fast += (s.use == TensorSpec::Use::matrix ? 2 : 4) * n;
    }
    if (!files.find(s.name) && !dead) c.problems.push_back(fmt::format("{}: tensor {} is missing", folder, s.name));
  }
  for (const SafetensorsFile& f : files.files())
    for (const NamedView& t : f.tensors()) {
      ++c.dtypes[std::string(dtype_name(t.view.dtype))];
      auto it = table.find(t.name);
      if (it == table.end()) {
        c.problems.push_back(fmt::format("{}: tensor {} is not one of this model's", f.path(), t.name));
        continue;
      }
      if (it->second->shape != t.view.shape)
        c.problems.push_back(fmt::format("{}: tensor {} has shape {}, wanted {}", f.path(), t.name, to_string(t.view.shape), to_string(it->second->shape)));
      else if (t.view.dtype != DType::f32 && t.view.dtype != DType::bf16 && t.view.dtype != DType::f16)
        c.problems.push_back(fmt::format("{}: tensor {} is {}, wanted F32, BF16 or F16", f.path(), t.name, dtype_name(t.view.dtype)));
      if (verify) check_values(t, f.path(), c.problems), ++checked;
    }
  if (verify)
    for (const auto& h : files.sha256())
      if (h.wanted != h.found) c.problems.push_back(fmt::format("{}: SHA-256 is {}, the index states {}", h.path, h.found, h.wanted));
}

struct Loaded {
  Dims dims;
  TensorSpecs specs;
};

Loaded load_dit_table(const std::string& folder) {
  const h3::DitConfig d = h3::read_dit_config(folder + "/config.json");
  return {{{"hidden_size", std::to_string(d.hidden_size)},
           {"num_layers", std::to_string(d.num_layers)},
           {"num_refiner_layers", std::to_string(d.num_refiner_layers)},
           {"num_attention_heads", std::to_string(d.num_attention_heads)},
           {"attention_head_dim", std::to_string(d.attention_head_dim)},
           {"ffn_dim", std::to_string(d.ffn_dim)},
           {"text_dim", std::to_string(d.text_dim)}},
          h3::dit_tensor_specs(d)};
}

Loaded load_text_table(const std::string& folder, int64_t layers) {
  const qwen3_vl::Config t = qwen3_vl::read_config(folder + "/config.json");
  return {{{"hidden_size", std::to_string(t.text.hidden_size)},
           {"num_hidden_layers", fmt::format("{} ({} used)", t.text.num_hidden_layers, layers)},
           {"num_attention_heads", std::to_string(t.text.num_attention_heads)},
           {"num_key_value_heads", std::to_string(t.text.num_key_value_heads)},
           {"vocab_size", std::to_string(t.text.vocab_size)},
           {"vision depth", std::to_string(t.vision.depth)},
           {"vision hidden_size", std::to_string(t.vision.hidden_size)}},
          qwen3_vl::tensor_specs(t, layers)};
}

Loaded load_video_table(const std::string& folder) {
  Json json = read_json(folder + "/config.json");
  const h3::VideoVaeConfig v = h3::parse_video_vae_config(JsonView(json, folder + "/config.json"));
  return {{{"latent_channels", std::to_string(v.latent_channels)},
           {"block_out_channels", fmt::format("{}", fmt::join(v.block_out_channels, " "))},
           {"decoder_num_layers", std::to_string(v.decoder_num_layers)},
           {"decoder width", std::to_string(v.dim())}},
          h3::video_vae_specs(v)};
}

Loaded load_audio_table(const std::string& folder) {
  Json json = read_json(folder + "/config.json");
  const h3::AudioVaeConfig a = h3::parse_audio_vae_config(JsonView(json, folder + "/config.json"));
  return {{{"latent_channels", std::to_string(a.latent_channels)},
           {"sampling_rate", std::to_string(a.sampling_rate)},
           {"decoder_dim", std::to_string(a.decoder_dim)},
           {"decoder_rates", fmt::format("{}", fmt::join(a.decoder_rates, " "))}},
          h3::audio_vae_specs(a)};
}

}  // namespace

bool ModelReport::sound() const {
  for (const ComponentReport& c : components)
    if (!c.problems.empty()) return false;
  return true;
}

ModelReport inspect_model(const std::string& folder, bool verify) {
  ModelReport report;
  report.index = h3::read_model_index(folder);
  auto component = [&](const std::string& name, const std::string& stem, const std::function<Loaded(const std::string&)>& load) {
    ComponentReport c;
    c.name = name;
    const std::string path = folder + "/" + name;
    try {
      Loaded l = load(path);
      c.dims = l.dims;
      check_component(c, path, stem, l.specs, verify, report.tensors_checked);
    } catch (const Error& e) {
      c.problems.push_back(e.what());
    }
    report.components.push_back(std::move(c));
  };
  const int64_t layers = report.index.config.text_encoder_layer;
  if (report.index.has_transformer) component("transformer", "diffusion_pytorch_model", load_dit_table);
  if (report.index.has_transformer_ref) component("transformer_ref", "diffusion_pytorch_model", load_dit_table);
  component("vae", "diffusion_pytorch_model", load_video_table);
  component("audio_vae", "diffusion_pytorch_model", load_audio_table);
  component("text_encoder", "model", [&](const std::string& p) { return load_text_table(p, layers); });
  auto small = [&](const std::string& name, const std::function<Dims(const std::string&)>& load) {
    ComponentReport c;
    c.name = name;
    try {
      c.dims = load(folder + "/" + name);
    } catch (const Error& e) {
      c.problems.push_back(e.what());
    }
    report.components.push_back(std::move(c));
  };
  small("tokenizer", [](const std::string& p) { return Dims{{"tokens", std::to_string(Tokenizer::load(p).vocab_size())}}; });
  small("processor", [](const std::string& p) {
    const qwen3_vl::ProcessorConfig c = qwen3_vl::read_processor_config(p);
    return Dims{{"patch_size", std::to_string(c.patch_size)}, {"image_min_pixels", std::to_string(c.image_min_pixels)}};
  });
  return report;
}

}  // namespace zt
