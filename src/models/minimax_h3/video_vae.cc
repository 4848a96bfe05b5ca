#include "models/minimax_h3/video_vae.h"

#include <algorithm>
#include <array>

#include "models/minimax_h3/frame_stream.h"
#include "models/minimax_h3/tiling.h"

namespace zt::h3 {

namespace {

VideoVaeConfig read_config(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const Json json = read_json(path);
  return parse_video_vae_config({json, path});
}

}  // namespace

VideoVae::VideoVae(const Ops& ops, const Weights& weights, const VideoVaeConfig& config, Compute compute, bool with_encoder, Tiling tiling)
    : config_(config), tiling_(tiling), decoder_(load_video_decoder(weights, ops, config, compute)) {
  if (with_encoder) encoder_ = load_video_encoder(weights, ops, config);
}

// Parsed twice so that no half-built object exists; the file is small.
VideoVae::VideoVae(const Ops& ops, const std::string& folder, Compute compute, bool with_encoder)
    : VideoVae(ops, Weights(open_checkpoint(folder), video_vae_specs(read_config(folder)), folder), read_config(folder), compute, with_encoder) {}

std::unique_ptr<VideoVae> load_video_vae(const Ops& ops, const std::string& folder, Compute compute, bool with_encoder) {
  return std::make_unique<VideoVae>(ops, folder, compute, with_encoder);
}

// moments [latents, h, w, 2 * latent_channels] of frames first .. first + count, where frames past the last repeat it.
void VideoVae::encode_tiles(const Ctx& ctx, std::span<const Picture> frames, int64_t first, int64_t count, float* moments) const {
  const int64_t ratio = config_.spatial_ratio(), latents = (count + config_.temporal_ratio() - 1) / config_.temporal_ratio();
  const TileAxis y = split_tiles(frames[0].height, tiling_.size, tiling_.min_overlap, ratio),
                 x = split_tiles(frames[0].width, tiling_.size, tiling_.min_overlap, ratio);
  const TileAxis small_y = scaled_down(y, ratio), small_x = scaled_down(x, ratio);
  TileStitcher stitcher(small_y, small_x, latents, 2 * config_.latent_channels, moments);
  for (int64_t i = 0; i < y.count(); ++i)
    for (int64_t j = 0; j < x.count(); ++j) {
      const auto si = static_cast<size_t>(i), sj = static_cast<size_t>(j);
      Arena::Scope scope(ctx.arena());
      Mat tile = ctx.mat(latents * small_y.length[si] * small_x.length[sj], 2 * config_.latent_channels);
      auto source = [&](int64_t t, Mat plane) {
        const Picture& picture = frames[static_cast<size_t>(std::min(first + t, static_cast<int64_t>(frames.size()) - 1))];
        normalise(picture, y.start[si], x.start[sj], y.length[si], x.length[sj], plane);
      };
      encode_clip(ctx, *encoder_, config_, count, y.length[si], x.length[sj], source, tile);
      stitcher.place(ctx.exec, i, j, tile.data);
    }
}

Tensor VideoVae::encode(const Ctx& ctx, std::span<const Picture> frames) const {
  if (!encoder_) fail(ErrorKind::internal, "the video VAE was loaded without its encoder; load it with_encoder");
  if (frames.empty()) fail(ErrorKind::request, "no frames to encode, wanted at least one");
  const int64_t ratio = config_.spatial_ratio(), height = frames[0].height, width = frames[0].width;
  if (height % ratio || width % ratio || height < 2 * ratio || width < 2 * ratio)
    fail(ErrorKind::request, "frames to encode are {}x{}, wanted multiples of {} from {} up; resize them", width, height, ratio, 2 * ratio);
  for (const Picture& p : frames)
    if (p.height != height || p.width != width || p.rgb.size() != static_cast<size_t>(height * width * 3))
      fail(ErrorKind::request, "frames to encode differ in size: {}x{} and {}x{}; resize them to one", width, height, p.width, p.height);

  const auto n = static_cast<int64_t>(frames.size()), h = height / ratio, w = width / ratio, channels = 2 * config_.latent_channels;
  const int64_t clips = n == 1 ? 1 : (n + config_.clip_length - 1) / config_.clip_length;
  const int64_t clip_frames = n == 1 ? 1 : config_.clip_length, clip_latents = n == 1 ? 1 : config_.tokens_chunk_size();
  const int64_t latents = clips * clip_latents - (n == 1 ? 0 : config_.token_drop);
  Tensor moments({channels, latents, h, w});
  std::vector<float> clip(static_cast<size_t>(clip_latents * h * w * channels));
  for (int64_t i = 0; i < clips; ++i) {
    encode_tiles(ctx, frames, i * clip_frames, clip_frames, clip.data());
    const int64_t keep = std::min(clip_latents, latents - i * clip_latents);
    for (int64_t p = 0; p < keep * h * w; ++p)
      for (int64_t c = 0; c < channels; ++c)
        moments.data()[c * latents * h * w + i * clip_latents * h * w + p] = clip[static_cast<size_t>(p * channels + c)];
  }
  return moments;
}

std::unique_ptr<FrameStream> VideoVae::decode(Tensor latents) const { return std::make_unique<ClipStream>(*this, std::move(latents), true); }
std::unique_ptr<FrameStream> VideoVae::open(Tensor latents) const { return std::make_unique<ClipStream>(*this, std::move(latents), true, true); }
std::unique_ptr<FrameStream> VideoVae::decode_raw(Tensor latents) const { return std::make_unique<ClipStream>(*this, std::move(latents), false); }

int64_t VideoVae::decoded_frames(int64_t latent_frames) const { return ClipLayout(config_, latent_frames).frames; }

}  // namespace zt::h3
