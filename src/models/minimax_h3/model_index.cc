#include "models/minimax_h3/model_index.h"

#include <filesystem>

#include "base/error.h"

namespace fs = std::filesystem;

namespace zt::h3 {

namespace {

constexpr const char* kConfigKeys[] = {"canvas_short_edge",  "canvas_max_pixels",    "reference_image_short_edge", "min_duration_s",
                                       "max_duration_s",     "text_encoder_layer",   "keyframe_encode_seed",       "keyframe_noise_aug"};

float read_shift(const std::string& folder) {
  const std::string path = folder + "/scheduler_config.json";
  Json json = read_json(path);
  return static_cast<float>(JsonView(json, path).number("shift", 1e-3, 1e3));
}

// The few dimensions that geometry needs before any weights are read.
void read_dims(ModelIndex& m) {
  const std::string vae = m.folder + "/vae/config.json", audio = m.folder + "/audio_vae/config.json";
  const std::string dit = m.folder + (m.has_transformer ? "/transformer" : "/transformer_ref") + "/config.json";
  Json vj = read_json(vae), aj = read_json(audio);
  m.spatial_ratio = 1;
  for (int64_t f : JsonView(vj, vae).integers("spatial_downsample_factors", 1, 8)) m.spatial_ratio *= f;
  if (m.spatial_ratio > 256) fail(ErrorKind::model, "{}: \"spatial_downsample_factors\" multiply to {}, more than 256", vae, m.spatial_ratio);
  m.latent_channels = JsonView(vj, vae).integer("latent_channels", 1, 1024);
  m.sample_rate = static_cast<int>(JsonView(aj, audio).integer("sampling_rate", 1000, 384000));
  std::error_code e;
  const Json dj = fs::exists(dit, e) ? read_json(dit) : Json::object();
  if (!dj.contains("patch_size")) return;   // other spellings of the transformer do not say it; it is the released model's
  auto patch = JsonView(dj, dit).integers("patch_size", 1, 16);
  if (patch.size() != 3) fail(ErrorKind::model, "{}: \"patch_size\" wants [1, h, w]", dit);
  m.patch_h = patch[1], m.patch_w = patch[2];
}

}  // namespace

void apply_config(const JsonView& j, PipelineConfig& c, bool strict) {
  if (strict)
    for (auto& [key, value] : j.json().items()) {
      bool known = false;
      for (const char* k : kConfigKeys) known |= key == k;
      if (!known) fail(ErrorKind::request, "{}: unknown key \"{}\"; known are {}", j.origin(), key, fmt::join(kConfigKeys, ", "));
    }
  c.canvas_short_edge = j.integer("canvas_short_edge", 32, 1 << 16, c.canvas_short_edge);
  c.canvas_max_pixels = j.integer("canvas_max_pixels", 32 * 32, int64_t{1} << 32, c.canvas_max_pixels);
  c.reference_image_short_edge = j.integer("reference_image_short_edge", 32, 1 << 16, c.reference_image_short_edge);
  c.min_duration_s = j.number("min_duration_s", 0, 3600, c.min_duration_s);
  c.max_duration_s = j.number("max_duration_s", c.min_duration_s, 3600, c.max_duration_s);
  c.text_encoder_layer = j.integer("text_encoder_layer", 1, 1000, c.text_encoder_layer);
  c.keyframe_encode_seed = j.integer("keyframe_encode_seed", 0, int64_t{1} << 62, c.keyframe_encode_seed);
  c.keyframe_noise_aug = j.number("keyframe_noise_aug", 0, 1, c.keyframe_noise_aug);
}

ModelIndex read_model_index(const std::string& folder) {
  if (!fs::exists(folder)) fail(ErrorKind::model, "{}: no such folder; --model wants a MiniMax-H3 folder in the diffusers layout", folder);
  if (!fs::is_directory(folder)) fail(ErrorKind::model, "{}: is a file, wanted a folder with modular_model_index.json", folder);
  const std::string path = folder + "/modular_model_index.json";
  if (!fs::exists(path))
    fail(ErrorKind::model, "{}: holds no modular_model_index.json; wanted a MiniMax-H3 folder in the diffusers layout", folder);
  Json json = read_json(path);
  JsonView j(json, path);
  const std::string kind = j.text("_class_name", "");
  if (kind != "MiniMaxH3ModularPipeline")
    fail(ErrorKind::model, "{}: unknown architecture \"{}\"; this engine runs MiniMaxH3ModularPipeline", path, kind);
  ModelIndex m;
  m.folder = folder;
  apply_config(j, m.config, false);
  for (const char* part : {"text_encoder", "tokenizer", "processor", "vae", "audio_vae", "scheduler", "audio_scheduler"})
    if (!fs::is_directory(folder + "/" + part))
      fail(ErrorKind::model, "{}: component folder {} is missing; the checkpoint is incomplete", folder, part);
  m.has_transformer = fs::is_directory(folder + "/transformer");
  m.has_transformer_ref = fs::is_directory(folder + "/transformer_ref");
  if (!m.has_transformer && !m.has_transformer_ref)
    fail(ErrorKind::model, "{}: neither transformer nor transformer_ref is there; the checkpoint is incomplete", folder);
  read_dims(m);
  m.video_shift = read_shift(folder + "/scheduler");
  m.audio_shift = read_shift(folder + "/audio_scheduler");
  return m;
}

}  // namespace zt::h3
