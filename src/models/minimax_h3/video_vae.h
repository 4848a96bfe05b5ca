#pragma once
// MiniMax-H3's video VAE in the role of a VideoCodec: 16x in space and 4x in time in the released config, 17-frame clips, blended tiles.
// Source: diffusers autoencoder_kl_minimax_h3.py.
#include <memory>
#include <optional>
#include <string>

#include "models/minimax_h3/video_decoder.h"
#include "models/minimax_h3/video_encoder.h"
#include "models/minimax_h3/video_vae_config.h"
#include "models/roles.h"

namespace zt::h3 {

// Tile size and smallest overlap in pixels, as released; smaller ones only in tests.
struct Tiling {
  int64_t size = 256, min_overlap = 64;
};

class VideoVae final : public VideoCodec {
 public:
  // config.json and the weights of a component folder. `compute` is what the decoder's blocks multiply in (f32 or bf16); the encoder
  // is always float32 and is packed only `with_encoder`. Errors (kind model): those of the config, the files and the tensor table.
  VideoVae(const Ops& ops, const std::string& folder, Compute compute, bool with_encoder);
  VideoVae(const Ops& ops, const Weights& weights, const VideoVaeConfig& config, Compute compute, bool with_encoder, Tiling tiling = {});

  int latent_channels() const override { return static_cast<int>(config_.latent_channels); }
  std::span<const float> latents_mean() const override { return config_.latents_mean; }
  std::span<const float> latents_std() const override { return config_.latents_std; }
  // Errors: kind request if there are no frames, sizes differ, or a side is no multiple of the spatial ratio or below twice it;
  // kind internal if the encoder was not loaded.
  Tensor encode(const Ctx& ctx, std::span<const Picture> frames) const override;
  std::unique_ptr<FrameStream> decode(Tensor latents) const override;
  std::unique_ptr<FrameStream> open(Tensor latents) const override;
  // Chunks are what one clip adds (17 frames in the released config), then what the last clip leaves over.
  int64_t decoded_frames(int64_t latent_frames) const override;
  // As decode, but `latents` are taken as the network takes them (denormalised) and pixels come as it gives them (ImageNet-normalised, not clamped).
  std::unique_ptr<FrameStream> decode_raw(Tensor latents) const;

  const VideoVaeConfig& config() const { return config_; }
  const VideoDecoder& decoder() const { return decoder_; }
  const Tiling& tiling() const { return tiling_; }

 private:
  void encode_tiles(const Ctx& ctx, std::span<const Picture> frames, int64_t first, int64_t count, float* moments) const;

  VideoVaeConfig config_;
  Tiling tiling_;
  VideoDecoder decoder_;
  std::optional<VideoEncoder> encoder_;
};

std::unique_ptr<VideoVae> load_video_vae(const Ops& ops, const std::string& folder, Compute compute, bool with_encoder);

}  // namespace zt::h3
