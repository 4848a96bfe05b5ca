#pragma once
// The DAC-style encoder of the audio VAE and the causal attention block behind it.
// Source: diffusers autoencoder_kl_minimax_h3_audio.py, MiniMaxH3AudioEncoder and MiniMaxH3AudioAttnProjection.
#include <array>
#include <vector>

#include "models/minimax_h3/audio_vae_config.h"
#include "nn/conv.h"

namespace zt::h3 {

struct AudioEncoder {
  struct Unit {                                   // x += conv2(snake(conv1(snake x)))
    std::vector<float> alpha1, alpha2;            // [channels], not exponentiated
    Conv1d conv1, conv2;
  };
  struct Stage {
    std::array<Unit, 3> units;
    std::vector<float> alpha;
    Conv1d down;                                  // kernel 2 * rate, stride rate
  };
  struct Norm {
    std::vector<float> weight, bias;
  };
  Conv1d conv_in, conv_out;
  std::vector<Stage> stages;
  std::vector<float> alpha_out;
  // pre_block
  Norm norm1, norm2, norm3, mlp_norm;
  Linear qkv, attn_proj, proj, w0, w1, w2;
  Linear mean_proj;
};

AudioEncoder load_audio_encoder(const Weights& w, const Ops& ops, const AudioVaeConfig& c);

// samples [n], n a multiple of the hop -> posterior means [n / hop, latent_channels]. Throws Cancelled between layers.
Tensor encode_mono(const Ctx& ctx, const AudioEncoder& e, const AudioVaeConfig& c, std::span<const float> samples);

}  // namespace zt::h3
