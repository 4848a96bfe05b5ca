#pragma once
// The vision tower of Qwen3-VL: patches -> merged tokens and DeepStack features (transformers 5.23 Qwen3VLVisionModel).
#include <span>

#include "models/qwen3_vl/config.h"
#include "models/roles.h"
#include "nn/linear.h"

namespace zt::qwen3_vl {

struct LayerNorm {
  std::vector<float> weight, bias;
};

struct Merger {
  LayerNorm norm;
  bool norm_after_grouping;      // DeepStack mergers group 4 patches first
  Linear fc1, fc2;
};

struct VisionBlock {
  LayerNorm norm1, norm2;
  Linear qkv, proj, fc1, fc2;
};

struct VisionTower {
  VisionConfig config;
  Linear patch_embed;
  std::vector<float> pos_embed;  // [side * side, hidden]
  std::vector<VisionBlock> blocks;
  Merger merger;
  std::vector<Merger> deepstack;
};

VisionTower load_vision_tower(const Weights& w, const Ops& ops, const VisionConfig& config, Compute compute);

struct VisionFeatures {
  Tensor merged;                  // [tokens, out_hidden]
  std::vector<Tensor> deepstack;  // as many as deepstack_visual_indexes, each [tokens, out_hidden]
};

// All inputs of one kind (images, or videos) as one batch, tokens in input order. Each frame pair attends to itself only.
VisionFeatures run_vision_tower(const Ctx& ctx, const VisionTower& tower, std::span<const VisionInput* const> inputs);

// Frame groups of one input: an image has one, a video a group per temporal patch.
int64_t temporal_units(const VisionConfig& config, const VisionInput& input);

}  // namespace zt::qwen3_vl
