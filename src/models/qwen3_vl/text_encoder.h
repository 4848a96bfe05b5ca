#pragma once
// Qwen3-VL as a text encoder: tokens and vision blocks -> the residual stream after some number of text layers.
// Source: transformers 5.23 modeling_qwen3_vl.py.
#include <memory>
#include <string>

#include "kernels/compute.h"
#include "models/roles.h"

namespace zt::qwen3_vl {

// `folder` holds config.json and model.safetensors (or shards). `layers_used`: text layers that will be run; the rest stay unread.
// `compute`: f32, or bf16 for the matrices. Errors (kind model): anything wrong with the files.
std::unique_ptr<TextEncoder> load_text_encoder(const Ops& ops, const std::string& folder, int64_t layers_used, Compute compute);

// M-RoPE positions [3][N] (t, h, w): text counts up on all three; a vision block of merged grid (gh, gw) that starts at p has
// t = p, h = p + row, w = p + col, after which p grows by max(gh, gw). Each temporal unit of a video is a block of its own.
std::vector<int32_t> mrope_position_ids(const TextInput& input, int64_t spatial_merge_size, int64_t temporal_patch_size);

}  // namespace zt::qwen3_vl
