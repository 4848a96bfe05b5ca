#pragma once
// MiniMax-H3's audio VAE in the role of an AudioCodec: 800 samples a latent at 32 kHz in the released config. The network is mono;
// stereo is two passes. Always float32. Source: diffusers autoencoder_kl_minimax_h3_audio.py.
#include <memory>
#include <optional>
#include <string>

#include "models/minimax_h3/audio_decoder.h"
#include "models/minimax_h3/audio_encoder.h"
#include "models/minimax_h3/audio_vae_config.h"
#include "models/roles.h"

namespace zt::h3 {

class AudioVae final : public AudioCodec {
 public:
  // config.json and the weights of a component folder; the encoder is packed only `with_encoder`.
  // Errors (kind model): those of the config, the files and the tensor table.
  AudioVae(const Ops& ops, const std::string& folder, bool with_encoder);
  AudioVae(const Ops& ops, const Weights& weights, const AudioVaeConfig& config, bool with_encoder);

  int sample_rate() const override { return static_cast<int>(config_.sampling_rate); }
  int hop() const override { return static_cast<int>(config_.hop()); }
  int latent_channels() const override { return static_cast<int>(config_.latent_channels); }
  std::span<const float> latents_mean() const override { return config_.latents_mean; }
  std::span<const float> latents_std() const override { return config_.latents_std; }
  // Pads with zeros on the right to whole latents. Errors: kind request if there are no samples, channels differ in length or the rate is
  // another; kind internal if the encoder was not loaded.
  Tensor encode(const Ctx& ctx, const Sound& sound) const override;
  // The network's lookahead is about 28 latents in the released config, so a chunk ends that much before the latents it has seen.
  std::unique_ptr<SoundStream> decode(Tensor latents) const override;
  std::unique_ptr<SoundStream> open(Tensor latents) const override;
  // As decode, reading `piece` latents at a time; `normalised` false: latents as the network takes them.
  std::unique_ptr<SoundStream> decode_pieces(Tensor latents, int64_t piece, bool normalised) const;

  const AudioVaeConfig& config() const { return config_; }
  const AudioDecoder& decoder() const { return decoder_; }

 private:
  AudioVaeConfig config_;
  AudioDecoder decoder_;
  std::optional<AudioEncoder> encoder_;
};

std::unique_ptr<AudioVae> load_audio_vae(const Ops& ops, const std::string& folder, bool with_encoder);

}  // namespace zt::h3
