#pragma once
// A model folder in the diffusers layout: which components it has, and the pipeline values that go with them.
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace zt::h3 {

// Values of the released pipeline; a model's modular_model_index.json may give others under the same names, and a request's
// --config overrides both.
struct PipelineConfig {
  int64_t canvas_short_edge = 768;
  int64_t canvas_max_pixels = 768 * 1344;
  int64_t reference_image_short_edge = 2048;
  double min_duration_s = 5.0;          // of the aligned frame count
  double max_duration_s = 15.1;         // 362 frames are 15.083 s
  int64_t text_encoder_layer = 50;
  int64_t keyframe_encode_seed = 42;
  double keyframe_noise_aug = 0.999;
};

// Overwrites what `values` names. Errors (kind `kind`): an unknown key (if strict), a value out of range.
void apply_config(const JsonView& values, PipelineConfig& config, bool strict);

struct ModelIndex {
  std::string folder;
  PipelineConfig config;
  float video_shift = 12, audio_shift = 3;
  bool has_transformer = false, has_transformer_ref = false;
  int64_t spatial_ratio = 16;           // pixels of a latent along an axis
  int64_t patch_h = 2, patch_w = 2;     // latents of a denoiser row
  int64_t latent_channels = 24;
  int sample_rate = 32000;
  // What both sides of a canvas must be multiples of.
  int64_t canvas_multiple() const { return spatial_ratio * patch_w; }
};

// Errors (kind model): no folder, no modular_model_index.json, another architecture, a component folder missing.
ModelIndex read_model_index(const std::string& folder);

}  // namespace zt::h3
