#pragma once
// What a model can be to a pipeline. The denoise loop, tasks and samplers live in pipeline; a model is a pure step.
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "nn/ctx.h"
#include "tensor/media.h"
#include "tensor/tensor.h"

namespace zt {

// One vision block of a presentation, already resized to the processor's grid: `frames` are RGB of 16 * grid_h rows and
// 16 * grid_w columns; an image has one frame, a video an even number.
struct VisionInput {
  bool video = false;
  int grid_h = 0, grid_w = 0;
  std::vector<Picture> frames;
};

struct TextInput {
  std::vector<int32_t> token_ids;            // [N]
  std::vector<int32_t> mm_token_type_ids;    // [N] 0 text, 1 image pad, 2 video pad
  std::vector<VisionInput> vision;           // in the order of their pads
};

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  virtual int64_t hidden_size() const = 0;
  virtual int layer_count() const = 0;
  // The residual stream after `layers` text layers, no final norm: [N, hidden_size].
  virtual Tensor encode(const Ctx& ctx, const TextInput& input, int layers) const = 0;
};

// The packed sequence of one request: [text | conditions | target audio ch0, ch1 | target video].
struct PackedLayout {
  int64_t text_rows = 0, condition_video_rows = 0, condition_audio_rows = 0;
  std::vector<double> position_ids;          // [S, 3] t, h, w
  std::vector<int32_t> token_tags;           // [S] 0 video, 1 text, 2 audio
  std::vector<int32_t> video_indices, audio_indices, text_indices;   // rows of each modality, conditions first
  int64_t rows() const { return static_cast<int64_t>(token_tags.size()); }
};

// Velocities of one evaluation at noise levels t (1 is clean), rows as in the layout: conditions first.
class Denoiser {
 public:
  virtual ~Denoiser() = default;
  virtual int64_t video_row_width() const = 0;    // values of one video row (channels * patch)
  virtual int64_t audio_row_width() const = 0;

  // What stays the same over the evaluations of one request: refined text, rotary tables, row lists.
  struct Prepared {
    virtual ~Prepared() = default;
  };
  virtual std::unique_ptr<Prepared> prepare(const Ctx& ctx, const PackedLayout& layout, ConstMat prompt_embeds) const = 0;

  // Noise levels that will be asked for: what depends on them alone is computed now and kept for later requests, as far as memory
  // allows. step() gives the same bytes with and without. Returns how many of the distinct levels were not kept before.
  virtual int64_t prepare_timesteps(const Ctx& ctx, std::span<const float> timesteps) = 0;

  virtual int64_t timestep_bytes() const = 0;     // of all that is kept so

  // timestep: the distinct t values, ascending; timestep_indices [S]: each row's index into it.
  // video_rows, audio_rows: conditions and targets; outputs have the same rows. Throws Cancelled between blocks.
  virtual void step(const Ctx& ctx, const Prepared& prepared, std::span<const float> timestep, std::span<const int32_t> timestep_indices,
                    ConstMat video_rows, ConstMat audio_rows, Mat video_velocity, Mat audio_velocity) const = 0;
};

// Frames of a decoded chunk: float32 [count, 3, height, width], valid until the next call. What is shown of channel c is
// clamp(x * scale[c] + shift[c], 0, 1): made where frames become bytes, for a pass over them less; scale and shift null: x itself.
struct FrameChunk {
  int64_t first_frame = 0, count = 0;
  int height = 0, width = 0;
  const float* data = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;
  float shown(int64_t channel, float x) const { return scale ? std::clamp(x * scale[channel] + shift[channel], 0.0f, 1.0f) : x; }
};

class FrameStream {
 public:
  virtual ~FrameStream() = default;
  virtual bool next(const Ctx& ctx, FrameChunk& chunk) = 0;   // false at the end; of an open stream, where it needs latents to come
  // Latents that follow the ones given, [latent_channels, T, h, w]. Errors (internal): the stream was not opened for more, another size.
  virtual void append(const Tensor& latents) = 0;
};

class VideoCodec {
 public:
  virtual ~VideoCodec() = default;
  virtual int latent_channels() const = 0;
  virtual std::span<const float> latents_mean() const = 0;    // [latent_channels]
  virtual std::span<const float> latents_std() const = 0;
  // RGB frames of one size -> posterior moments [2 * latent_channels, T, h, w]: means, then log-variances.
  // One frame gives T = 1; more are padded to clips (17n + 5 frames give 5n + 2 latents).
  virtual Tensor encode(const Ctx& ctx, std::span<const Picture> frames) const = 0;
  // `latents` as the denoiser leaves them (normalised), [latent_channels, T, h, w]; kept alive by the stream.
  virtual std::unique_ptr<FrameStream> decode(Tensor latents) const = 0;
  // As decode, of a video whose end is not known: more latents come by append(), in memory that does not grow. At least one clip's latents.
  virtual std::unique_ptr<FrameStream> open(Tensor latents) const = 0;
  virtual int64_t decoded_frames(int64_t latent_frames) const = 0;
};

struct SoundChunk {
  int64_t first_sample = 0, count = 0;       // a channel's samples
  std::vector<const float*> channels;        // valid until the next call
};

class SoundStream {
 public:
  virtual ~SoundStream() = default;
  virtual bool next(const Ctx& ctx, SoundChunk& chunk) = 0;   // as FrameStream::next
  virtual void append(const Tensor& latents) = 0;             // [channels, latent_channels, T]; as FrameStream::append
};

class AudioCodec {
 public:
  virtual ~AudioCodec() = default;
  virtual int sample_rate() const = 0;
  virtual int hop() const = 0;                                // samples of one latent
  virtual int latent_channels() const = 0;
  virtual std::span<const float> latents_mean() const = 0;
  virtual std::span<const float> latents_std() const = 0;
  // Stereo (or mono) sound at sample_rate -> posterior means [channels, latent_channels, ceil(samples / hop)], not normalised.
  virtual Tensor encode(const Ctx& ctx, const Sound& sound) const = 0;
  // `latents` normalised, [channels, latent_channels, T].
  virtual std::unique_ptr<SoundStream> decode(Tensor latents) const = 0;
  virtual std::unique_ptr<SoundStream> open(Tensor latents) const = 0;   // of a sound whose end is not known, as VideoCodec::open
};

}  // namespace zt
