#include "models/minimax_h3/frame_stream.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "models/minimax_h3/tiling.h"

namespace zt::h3 {

namespace {

// The VAE's pixel convention: ImageNet statistics over [0, 1] (torchvision; diffusers modular_pipelines/minimax_h3).
constexpr float kMean[3] = {0.485f, 0.456f, 0.406f}, kStd[3] = {0.229f, 0.224f, 0.225f};

}  // namespace

void normalise(const Picture& picture, int64_t top, int64_t left, int64_t height, int64_t width, Mat plane) {
  for (int64_t r = 0; r < height; ++r) {
    const uint8_t* from = picture.rgb.data() + ((top + r) * picture.width + left) * 3;
    float* to = plane.row(r * width);
    for (int64_t i = 0; i < 3 * width; ++i) to[i] = (static_cast<float>(from[i]) / 255.0f - kMean[i % 3]) / kStd[i % 3];
  }
}

ClipLayout::ClipLayout(const VideoVaeConfig& c, int64_t latents) {
  if (latents < 1) fail(ErrorKind::request, "{} latent frames to decode, wanted at least one", latents);
  const int64_t ratio = c.temporal_ratio(), pre = c.frame_pre_padding(), drops = c.token_drop > 0 ? 1 : 0;
  chunk = c.tokens_chunk_size();
  const int64_t given = latents + c.token_drop, padding = (chunk - given % chunk) % chunk;
  clips = (given + padding) / chunk - drops;
  if (clips == 0) {   // too short for a clip (two latents, 5 frames): one short clip; the reference has no answer here
    clips = 1, tokens = latents, added = latents * ratio - pre;
    for (int64_t f = 0; f < added; ++f) kept.push_back(pre + f);
    frames = added;
    return;
  }
  tokens = chunk + c.token_overlap();
  added = chunk * ratio - pre;
  for (int64_t f = 0; f < added; ++f) kept.push_back(pre + f);
  if (drops) {
    overlap = std::max(c.token_overlap() * ratio - pre, int64_t{0});
    for (int64_t f = 0; f < overlap; ++f) kept.push_back(chunk * ratio + pre + f);
  }
  frames = clips * added + overlap;
  // Repeated latents made frames that nobody asked for: the last latent of a chunk stands for fewer of them.
  const int64_t tail = c.clip_length % ratio;
  for (int64_t k = 0; k < padding; ++k) frames -= tail && (latents + k) % chunk == 0 ? tail : ratio;
}

ClipStream::ClipStream(const VideoVae& vae, Tensor latents, bool finished, bool open)
    : vae_(vae), latents_(std::move(latents)), finished_(finished), open_(open), layout_(vae.config(), latents_.shape().size() == 4 ? latents_.dim(1) : 0) {
  if (latents_.dim(0) != vae.config().latent_channels)
    fail(ErrorKind::internal, "latents to decode are {}, wanted [{}, T, h, w]", to_string(latents_.shape()), vae.config().latent_channels);
  height_ = latents_.dim(2) * vae.config().spatial_ratio();
  width_ = latents_.dim(3) * vae.config().spatial_ratio();
  if (open_) layout_.clips = layout_.frames = std::numeric_limits<int64_t>::max();
}

void ClipStream::append(const Tensor& more) {
  const int64_t channels = latents_.dim(0), plane = latents_.dim(2) * latents_.dim(3);
  if (!open_ || more.shape().size() != 4 || more.dim(0) != channels || more.dim(2) != latents_.dim(2) || more.dim(3) != latents_.dim(3))
    fail(ErrorKind::internal, "latents {} cannot follow {} in {} stream", to_string(more.shape()), to_string(latents_.shape()), open_ ? "an open" : "a closed");
  const int64_t dropped = clip_ * layout_.chunk - base_, kept = latents_.dim(1) - dropped, n = more.dim(1);
  Tensor all({channels, kept + n, latents_.dim(2), latents_.dim(3)});
  for (int64_t c = 0; c < channels; ++c) {
    std::copy_n(latents_.data() + (c * latents_.dim(1) + dropped) * plane, kept * plane, all.data() + c * (kept + n) * plane);
    std::copy_n(more.data() + c * n * plane, n * plane, all.data() + (c * (kept + n) + kept) * plane);
  }
  base_ += dropped;
  latents_ = std::move(all);
}

// One tile of the current clip: latents [.., top.., left..] -> tile [kept frames, 3, height * ratio, width * ratio]. Sizes in latents.
void ClipStream::decode_tile(const Ctx& ctx, int64_t top, int64_t left, int64_t height, int64_t width, float* tile) const {
  const VideoVaeConfig& c = vae_.config();
  Arena::Scope scope(ctx.arena());
  const int64_t voxels = layout_.tokens * height * width, ratio = c.spatial_ratio(), frames_per_patch = c.temporal_ratio();
  Mat z = ctx.mat(voxels, c.latent_channels), patches = ctx.mat(voxels, c.patch_floats());
  for (int64_t t = 0; t < layout_.tokens; ++t) {
    const int64_t from = std::min(clip_ * layout_.chunk + t - base_, latents_.dim(1) - 1);
    for (int64_t k = 0; k < c.latent_channels; ++k) {
      const float scale = finished_ ? c.latents_std[static_cast<size_t>(k)] : 1.0f, shift = finished_ ? c.latents_mean[static_cast<size_t>(k)] : 0.0f;
      for (int64_t y = 0; y < height; ++y) {
        const float* row = latents_.data() + ((k * latents_.dim(1) + from) * latents_.dim(2) + top + y) * latents_.dim(3) + left;
        for (int64_t x = 0; x < width; ++x) z.row((t * height + y) * width + x)[k] = row[x] * scale + shift;
      }
    }
  }
  decode_patches(ctx, vae_.decoder(), c, z, layout_.tokens, height, width, patches);

  const auto kept = static_cast<int64_t>(layout_.kept.size());
  ctx.exec.threads.parallel_for(kept * 3 * height, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t y = n % height, channel = n / height % 3, slot = n / height / 3, frame = layout_.kept[static_cast<size_t>(slot)];
      const int64_t part = (channel * frames_per_patch + frame % frames_per_patch) * ratio * ratio;
      float* to = tile + (slot * 3 + channel) * height * ratio * width * ratio + y * ratio * width * ratio;
      for (int64_t x = 0; x < width; ++x) {
        const float* patch = patches.row((frame / frames_per_patch * height + y) * width + x) + part;
        for (int64_t row = 0; row < ratio; ++row) {
          float* pixels = to + (row * width + x) * ratio;
          if (ratio == 16) std::memcpy(pixels, patch + row * 16, 16 * sizeof(float));   // of the released models; a known size needs no call
          else std::copy_n(patch + row * ratio, ratio, pixels);
        }
      }
    }
  });
}

void ClipStream::decode_clip(const Ctx& ctx) {
  const int64_t ratio = vae_.config().spatial_ratio();
  const TileAxis y = split_tiles(height_, vae_.tiling().size, vae_.tiling().min_overlap, ratio),
                 x = split_tiles(width_, vae_.tiling().size, vae_.tiling().min_overlap, ratio);
  const auto kept = static_cast<int64_t>(layout_.kept.size());
  if (y.count() == 1 && x.count() == 1) return decode_tile(ctx, 0, 0, height_ / ratio, width_ / ratio, canvas_.data());
  TileStitcher stitcher(y, x, kept * 3, 1, canvas_.data());
  for (int64_t i = 0; i < y.count(); ++i)
    for (int64_t j = 0; j < x.count(); ++j) {
      const auto si = static_cast<size_t>(i), sj = static_cast<size_t>(j);
      Arena::Scope scope(ctx.arena());
      float* tile = ctx.arena().take<float>(kept * 3 * y.length[si] * x.length[sj]);
      decode_tile(ctx, y.start[si] / ratio, x.start[sj] / ratio, y.length[si] / ratio, x.length[sj] / ratio, tile);
      stitcher.place(ctx.exec, i, j, tile);
    }
}

// The first frames of this clip fade in over the last ones of the clip before.
void ClipStream::cross_fade(const Exec& exec) {
  const int64_t extent = std::min(layout_.overlap, layout_.added);
  for (int64_t k = 0; k < extent; ++k) {
    const float b = static_cast<float>(k) / static_cast<float>(extent), a = 1 - b;
    const float* before = overlap_.data() + (layout_.overlap - extent + k) * frame_floats();
    float* now = canvas_.data() + k * frame_floats();
    exec.threads.parallel_for(frame_floats(), 1 << 14, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) now[i] = before[i] * a + now[i] * b;
    });
  }
}

void ClipStream::emit(const float* frames, int64_t count, FrameChunk& chunk) {
  count = std::min(count, layout_.frames - emitted_);
  chunk = {.first_frame = emitted_, .count = count, .height = static_cast<int>(height_), .width = static_cast<int>(width_), .data = frames,
           .scale = finished_ ? kStd : nullptr, .shift = finished_ ? kMean : nullptr};
  emitted_ += count;
}

bool ClipStream::next(const Ctx& ctx, FrameChunk& chunk) {
  if (emitted_ >= layout_.frames) return false;
  if (open_ && clip_ * layout_.chunk + layout_.tokens > base_ + latents_.dim(1)) return false;
  if (canvas_.empty()) {
    canvas_ = Tensor({static_cast<int64_t>(layout_.kept.size()), 3, height_, width_});
    if (layout_.overlap && layout_.clips > 1) overlap_ = Tensor({layout_.overlap, 3, height_, width_});
  }
  float* rest = canvas_.data() + layout_.added * frame_floats();
  if (clip_ == layout_.clips) {   // what the last clip would have shared with a next one
    emit(rest, layout_.overlap, chunk);
    return true;
  }
  if (clip_ > 0 && layout_.overlap)
    ctx.exec.threads.parallel_for(layout_.overlap * frame_floats(), 1 << 14, [&](int64_t i, int64_t end, int) { std::copy(rest + i, rest + end, overlap_.data() + i); });
  decode_clip(ctx);
  if (clip_ > 0 && layout_.overlap) cross_fade(ctx.exec);
  ++clip_;
  emit(canvas_.data(), layout_.added, chunk);
  return true;
}

}  // namespace zt::h3
