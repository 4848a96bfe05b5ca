#pragma once
// Dimensions and tensors of MiniMax-H3's audio VAE. Source: diffusers autoencoder_kl_minimax_h3_audio.py.
#include <vector>

#include "base/json.h"
#include "nn/weights.h"

namespace zt::h3 {

struct AudioVaeConfig {
  int64_t encoder_dim = 0, latent_dim = 0, latent_channels = 0, num_attention_heads = 0, decoder_dim = 0, sampling_rate = 0;
  std::vector<int64_t> encoder_rates, decoder_rates, decoder_kernel_sizes;   // one a stage
  std::vector<int64_t> resblock_kernel_sizes;                                // the parallel blocks of every decoder stage
  std::vector<std::vector<int64_t>> resblock_dilation_sizes;                 // [blocks][units]
  std::vector<float> latents_mean, latents_std;                              // [latent_channels]

  int64_t hop() const;                                                       // samples of a latent
  int64_t stage_channels(size_t stage) const { return decoder_dim >> (stage + 1); }   // after decoder stage `stage`
};

// Taps of the two resampling filters around every decoder activation (BigVGAN's Activation1d).
constexpr int64_t kFilterTaps = 12;

// Errors (kind model, naming file and key): a key missing, out of range, a list of the wrong length, dims that do not fit together.
AudioVaeConfig parse_audio_vae_config(const JsonView& config);
// Every tensor of the checkpoint, diffusers names.
TensorSpecs audio_vae_specs(const AudioVaeConfig& config);

}  // namespace zt::h3
