#include "pipeline/inspect.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "kernels/coded.h"
#include "kernels/exec.h"
#include "kernels/ops.h"
#include "models/minimax_h3/audio_vae_config.h"
#include "models/minimax_h3/dit.h"
#include "models/minimax_h3/layout.h"
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
void check_values(const Stored& t, std::vector<std::string>& problems) {
  int64_t bad = 0, zeros = 0;
  float largest = 0;
  const int64_t n = element_count(t.shape), rows = t.rows(), some = std::max<int64_t>(1, kChunk / std::max<int64_t>(1, t.row_values()));
  for (int64_t at = 0; at < rows && n; at += some) {
    const int64_t part = std::min(some, rows - at);
    std::vector<float> values(static_cast<size_t>(part * t.row_values()));
    read_rows(t, at, part, values.data());
    for (float v : values) {
      if (!std::isfinite(v)) ++bad;
      else largest = std::max(largest, std::fabs(v));
      zeros += v == 0.0f;
    }
  }
  if (bad) problems.push_back(fmt::format("{}: tensor {}: {} of {} values are NaN or infinite", *t.file, t.name, bad, n));
  else if (largest > kLargestSane) problems.push_back(fmt::format("{}: tensor {}: largest value {:g}; a scale was lost", *t.file, t.name, largest));
  const bool may_be_zero = t.name.ends_with("bias") || t.name.ends_with("beta") || t.name.ends_with("alpha");
  if (n > 16 && zeros == n && !may_be_zero) problems.push_back(fmt::format("{}: tensor {}: all {} values are zero", *t.file, t.name, n));
}

void count(PartReport& part, const TensorSpec& s, const WeightFiles& files) {
  const bool matrix = s.use == TensorSpec::Use::matrix;
  const int64_t n = element_count(s.shape);
  (matrix ? part.matrices : part.vectors) += n;
  const Stored* t = matrix ? files.find(s.name) : nullptr;
  if (t && t->coding == Stored::Coding::plain && t->bytes.dtype == DType::bf16) part.bf16_matrices += n;
  if (matrix) part.largest = std::max(part.largest, n);
}

// The part of a component's first block that a tensor belongs to; null for others.
PartReport* part_of(ComponentReport& c, std::string_view tensor) {
  constexpr std::string_view kFirst = "transformer_blocks.0.";
  if (!tensor.starts_with(kFirst)) return nullptr;
  return tensor.substr(kFirst.size()).starts_with("adaln") ? &c.block_adaln : &c.block;
}

// Holds the files of one component against its table.
void check_component(ComponentReport& c, const std::string& folder, const WeightFiles& files, const TensorSpecs& specs, bool verify, int64_t& checked) {
  c.files = files.file_count();
  c.tensors = files.tensors().size();
  c.file_bytes = files.total_bytes();
  for (const TensorSpec& s : specs) {
    if (s.use == TensorSpec::Use::foreign) continue;
    const int64_t n = element_count(s.shape);
    const bool dead = s.use == TensorSpec::Use::dead;
    c.parameters += n;
    if (dead) {
      c.dead_parameters += n;
    } else {
      count(c, s, files);
      if (PartReport* part = part_of(c, s.name)) count(*part, s, files);
    }
  }
  const Binding bound = bind_tensors(files, specs);
  for (size_t i = 0; i < specs.size(); ++i)
    if (PartReport* part = part_of(c, specs[i].name))
      if (const Stored* t = bound.tensors[i].stored)
        part->file_bytes += (t->bytes.bytes() + (t->scale.data ? t->scale.bytes() : 0)) / (is_fused(bound.tensors[i].order.rows) ? 3 : 1);
  for (const std::string& name : bound.missing) c.problems.push_back(fmt::format("{}: tensor {} is missing", folder, name));
  for (const std::string& name : bound.unexpected) c.problems.push_back(fmt::format("{}: tensor {} is not one of this model's", files.origin(), name));
  c.problems.insert(c.problems.end(), bound.misfits.begin(), bound.misfits.end());
  for (const Stored& t : files.tensors()) {
    ++c.dtypes[t.coding_name()];
    if (verify) check_values(t, c.problems), ++checked;
  }
  if (verify)
    for (const auto& h : files.sha256())
      if (h.wanted != h.found) c.problems.push_back(fmt::format("{}: SHA-256 is {}, the index states {}", h.path, h.found, h.wanted));
}

struct Loaded {
  Dims dims;
  TensorSpecs specs;
  int64_t hidden_size = 0, blocks = 0;   // of a transformer
};

Loaded load_dit_table(const std::string& folder, const WeightFiles& files) {
  const h3::DitConfig d = h3::read_dit_config(folder, files);
  return {{{"hidden_size", std::to_string(d.hidden_size)},
           {"num_layers", std::to_string(d.num_layers)},
           {"num_refiner_layers", std::to_string(d.num_refiner_layers)},
           {"num_attention_heads", std::to_string(d.num_attention_heads)},
           {"attention_head_dim", std::to_string(d.attention_head_dim)},
           {"ffn_dim", std::to_string(d.ffn_dim)},
           {"text_dim", std::to_string(d.text_dim)}},
          h3::dit_tensor_specs(d), d.hidden_size, d.num_layers};
}

Loaded load_text_table(const std::string& folder, const WeightFiles&, int64_t layers) {
  const qwen3_vl::Config t = qwen3_vl::read_config(folder + "/config.json");
  return {{{"hidden_size", std::to_string(t.text.hidden_size)},
           {"num_hidden_layers", fmt::format("{} ({} used)", t.text.num_hidden_layers, layers)},
           {"num_attention_heads", std::to_string(t.text.num_attention_heads)},
           {"num_key_value_heads", std::to_string(t.text.num_key_value_heads)},
           {"vocab_size", std::to_string(t.text.vocab_size)},
           {"vision depth", std::to_string(t.vision.depth)},
           {"vision hidden_size", std::to_string(t.vision.hidden_size)}},
          qwen3_vl::tensor_specs(t, layers), 0, 0};
}

Loaded load_video_table(const std::string& folder, const WeightFiles&) {
  Json json = read_json(folder + "/config.json");
  const h3::VideoVaeConfig v = h3::parse_video_vae_config(JsonView(json, folder + "/config.json"));
  return {{{"latent_channels", std::to_string(v.latent_channels)},
           {"block_out_channels", fmt::format("{}", fmt::join(v.block_out_channels, " "))},
           {"decoder_num_layers", std::to_string(v.decoder_num_layers)},
           {"decoder width", std::to_string(v.dim())}},
          h3::video_vae_specs(v), 0, 0};
}

Loaded load_audio_table(const std::string& folder, const WeightFiles&) {
  Json json = read_json(folder + "/config.json");
  const h3::AudioVaeConfig a = h3::parse_audio_vae_config(JsonView(json, folder + "/config.json"));
  return {{{"latent_channels", std::to_string(a.latent_channels)},
           {"sampling_rate", std::to_string(a.sampling_rate)},
           {"decoder_dim", std::to_string(a.decoder_dim)},
           {"decoder_rates", fmt::format("{}", fmt::join(a.decoder_rates, " "))}},
          h3::audio_vae_specs(a), 0, 0};
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
  auto component = [&](const std::string& name, const std::function<Loaded(const std::string&, const WeightFiles&)>& load) {
    ComponentReport c;
    c.name = name;
    const std::string path = folder + "/" + name;
    try {
      const WeightFiles files = open_checkpoint(path);
      Loaded l = load(path, files);
      c.dims = l.dims, c.hidden_size = l.hidden_size, c.blocks = l.blocks;
      check_component(c, path, files, l.specs, verify, report.tensors_checked);
    } catch (const Error& e) {
      c.problems.push_back(e.what());
    }
    report.components.push_back(std::move(c));
  };
  const int64_t layers = report.index.config.text_encoder_layer;
  if (report.index.has_transformer) component("transformer", load_dit_table);
  if (report.index.has_transformer_ref) component("transformer_ref", load_dit_table);
  component("vae", load_video_table);
  component("audio_vae", load_audio_table);
  component("text_encoder", [&](const std::string& p, const WeightFiles& f) { return load_text_table(p, f, layers); });
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

int64_t prepared_bytes(const PartReport& c, Compute compute) {
  const int64_t all = c.vectors + c.matrices;
  if (compute == Compute::f32 || !select_ops().gemm_bf16) return 4 * all;
  if (compute == Compute::bf16x3) return 4 * all - 2 * c.bf16_matrices;   // a matrix that bf16 does not hold stays float32
  if (BlockFormat f{}; block_format_of(compute, f)) return 4 * c.vectors + c.matrices * element_bits(f) / 8 + c.matrices / 32;
  return 4 * c.vectors + 2 * c.matrices;
}

Compute compute_of(const Plan& plan, const std::string& component) {
  if (component.starts_with("transformer")) return plan.denoiser;
  return component == "vae" ? plan.video_decoder : component == "audio_vae" ? plan.audio_codec : plan.text_encoder;
}

int64_t working_bytes(int64_t rows, int64_t hidden_size, int64_t width, int64_t height) {
  return rows * hidden_size * 68 + h3::kFramesPerChunk * width * height * 80;
}

int64_t machine_bytes() {
  int64_t bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  std::ifstream cgroup("/sys/fs/cgroup/memory.max");
  if (int64_t limit = 0; cgroup >> limit) bytes = std::min(bytes, limit);
  return bytes;
}

}  // namespace zt
