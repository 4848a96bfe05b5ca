#pragma once
// Frames of a decoded latent video, clip by clip. Source: diffusers autoencoder_kl_minimax_h3.py, _decode.
#include "models/minimax_h3/video_vae.h"

namespace zt::h3 {

// How latents map to clips and frames. Clip i decodes latents [i * chunk, i * chunk + tokens); latents past the last repeat it.
struct ClipLayout {
  // Errors (kind request): no latents.
  ClipLayout(const VideoVaeConfig& c, int64_t latents);
  int64_t clips = 0, tokens = 0, chunk = 0;   // latents a clip decodes, latents between two clips
  int64_t added = 0, overlap = 0;             // frames a clip adds, frames it shares with the next one
  std::vector<int64_t> kept;                  // frames of a decoded clip that are used: added + overlap of them
  int64_t frames = 0;                         // of the whole video
};

// [height, width, 3] of a part of `picture`, ImageNet-normalised, as rows of `plane`.
void normalise(const Picture& picture, int64_t top, int64_t left, int64_t height, int64_t width, Mat plane);

// Holds one clip of frames and the overlap of the clip before, whatever the length of the video.
class ClipStream final : public FrameStream {
 public:
  // latents [latent_channels, T, h, w]; `finished`: they are normalised, and pixels come denormalised and clamped to [0, 1].
  // `open`: more follow by append(); latents that no clip to come reads are dropped.
  ClipStream(const VideoVae& vae, Tensor latents, bool finished, bool open = false);
  bool next(const Ctx& ctx, FrameChunk& chunk) override;
  void append(const Tensor& latents) override;

 private:
  void decode_clip(const Ctx& ctx);
  void decode_tile(const Ctx& ctx, int64_t top, int64_t left, int64_t height, int64_t width, float* tile) const;
  void cross_fade(const Exec& exec);
  void emit(const float* frames, int64_t count, FrameChunk& chunk);
  int64_t frame_floats() const { return 3 * height_ * width_; }

  const VideoVae& vae_;
  Tensor latents_;
  int64_t base_ = 0;                   // place in the whole video of the first latent that is held
  bool finished_, open_;
  ClipLayout layout_;
  int64_t height_ = 0, width_ = 0;     // pixels
  int64_t clip_ = 0, emitted_ = 0;     // clips decoded, frames given out
  Tensor canvas_;                      // [added + overlap, 3, height, width]
  Tensor overlap_;                     // [overlap, 3, height, width] of the clip before
};

}  // namespace zt::h3
