#pragma once
// Dimensions and tensors of MiniMax-H3's video VAE. Source: diffusers autoencoder_kl_minimax_h3.py, AutoencoderKLMiniMaxH3.
#include <vector>

#include "base/json.h"
#include "nn/weights.h"

namespace zt::h3 {

struct VideoVaeConfig {
  int64_t in_channels = 0, out_channels = 0, latent_channels = 0;
  std::vector<int64_t> block_out_channels, spatial_downsample_factors, temporal_downsample_factors;   // one a level
  int64_t layers_per_block = 0, norm_num_groups = 0;
  float norm_eps = 0;
  int64_t decoder_num_layers = 0, decoder_num_attention_heads = 0, decoder_attention_head_dim = 0, decoder_num_register_tokens = 0,
          decoder_ffn_mult = 0;
  double decoder_rope_theta = 0, decoder_rope_dim_ratio = 0;
  float decoder_norm_eps = 0;
  int64_t clip_length = 0, token_drop = 0;          // frames of an encoded clip; latents dropped after the last
  std::vector<float> latents_mean, latents_std;     // [latent_channels]

  int64_t spatial_ratio() const;                    // pixels of a latent, each way
  int64_t temporal_ratio() const;                   // frames of a latent
  int64_t dim() const { return decoder_num_attention_heads * decoder_attention_head_dim; }
  int64_t ffn_dim() const { return dim() * decoder_ffn_mult; }
  int64_t rope_dim() const { return static_cast<int64_t>(static_cast<double>(decoder_attention_head_dim) * decoder_rope_dim_ratio); }
  int64_t patch_floats() const { return out_channels * temporal_ratio() * spatial_ratio() * spatial_ratio(); }
  // Temporal layout of clips, in latents and frames (17-frame clips: 5, 2, 3, 5).
  int64_t tokens_chunk_size() const { return (clip_length + temporal_ratio() - 1) / temporal_ratio(); }
  int64_t token_overlap() const { return (tokens_chunk_size() - token_drop % tokens_chunk_size()) % tokens_chunk_size(); }
  int64_t frame_pre_padding() const { return tokens_chunk_size() * temporal_ratio() - clip_length; }
  bool downsamples(size_t level) const { return spatial_downsample_factors[level] * temporal_downsample_factors[level] > 1; }
};

// Errors (kind model, naming file and key): a key missing, out of range, a list of the wrong length, dims that do not fit together.
VideoVaeConfig parse_video_vae_config(const JsonView& config);
// Every tensor of the checkpoint, diffusers names.
TensorSpecs video_vae_specs(const VideoVaeConfig& config);

}  // namespace zt::h3
