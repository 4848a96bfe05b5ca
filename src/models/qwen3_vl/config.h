#pragma once
// Dimensions of a Qwen3-VL checkpoint (text tower and vision tower) as its config.json gives them.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nn/weights.h"

namespace zt::qwen3_vl {

struct TextConfig {
  int64_t hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim, vocab_size;
  float rms_norm_eps;
  double rope_theta;
  std::array<int64_t, 3> mrope_section;   // frequencies of t, h, w
};

struct VisionConfig {
  int64_t hidden_size, intermediate_size, depth, num_heads, num_position_embeddings, out_hidden_size;
  int64_t patch_size, spatial_merge_size, temporal_patch_size, in_channels;
  std::vector<int64_t> deepstack_visual_indexes;
  int64_t patch_values() const { return in_channels * temporal_patch_size * patch_size * patch_size; }
  int64_t merged_size() const { return hidden_size * spatial_merge_size * spatial_merge_size; }
};

struct Config {
  TextConfig text;
  VisionConfig vision;
};

// Reads text_config and vision_config, in the spelling of transformers 4.57 (rope_theta, rope_scaling) or 5 (rope_parameters).
// Errors (kind model): a key missing, out of range or inconsistent with another.
Config read_config(const std::string& path);

// Every tensor of the checkpoint. Text layers from `layers_used` on, the final norm and lm_head are dead.
TensorSpecs tensor_specs(const Config& config, int64_t layers_used);

}  // namespace zt::qwen3_vl
