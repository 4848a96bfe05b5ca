#pragma once
// The packed self-attention transformer of MiniMax-H3: one forward gives the velocities of video and audio rows.
// Source: diffusers 0.42.1 transformer_minimax_h3.py.
#include <memory>
#include <string>

#include "kernels/compute.h"
#include "models/roles.h"
#include "nn/weights.h"

namespace zt::h3 {

struct DitConfig {
  int64_t num_attention_heads, attention_head_dim, hidden_size, num_layers, num_refiner_layers, ffn_dim;
  int64_t in_channels, audio_in_channels, text_dim, freq_dim, time_embed_hidden_dim, time_embed_dim, rope_freq_dim;
  int64_t patch_h, patch_w;
  double rope_theta;
  float norm_eps, qk_norm_eps, final_norm_eps;
  int64_t inner_dim() const { return num_attention_heads * attention_head_dim; }
  int64_t patch_values() const { return in_channels * patch_h * patch_w; }
};

// Errors (kind model): a key missing, out of range or inconsistent.
DitConfig read_dit_config(const std::string& path);
TensorSpecs dit_tensor_specs(const DitConfig& config);

// `folder` holds config.json and diffusion_pytorch_model.safetensors (or shards). compute: f32, or bf16 for all but the float32 islands.
// attention_mass: AttentionArgs::mass of the transformer's blocks (not of the refiner's).
std::unique_ptr<Denoiser> load_dit(const Ops& ops, const std::string& folder, Compute compute, double attention_mass = 1);

}  // namespace zt::h3
