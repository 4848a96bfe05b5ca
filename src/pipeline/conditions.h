#pragma once
// Pictures, videos and sounds of a request -> what the text encoder sees and what the denoiser is conditioned on.
// Source: diffusers 0.42.1 modular_pipelines/minimax_h3 (before_encoder.py, encoders.py).
#include <vector>

#include "models/minimax_h3/layout.h"
#include "models/minimax_h3/presentation.h"
#include "models/qwen3_vl/processor.h"
#include "models/roles.h"
#include "pipeline/request.h"

namespace zt {

// A keyframe or reference brought to the model's own rates and sizes.
struct Condition {
  h3::PresentedItem item;                    // how it is announced to the text encoder
  std::optional<VisionInput> vision;         // pictures for the text encoder
  std::vector<Picture> pixels;               // frames for the video codec: none (sound), one (image), 17 n + 5 (video)
  std::optional<Sound> sound;                // stereo at the codec's rate
};

struct Geometry {
  int64_t width, height, num_frames;
  h3::LatentShape latents;
  int64_t audio_latents;                     // per channel
  int64_t history_latents = 0, history_audio = 0;   // continuation: given ones before those; latents and audio_latents count what is made
};

// Errors (kind request): what the request asks is impossible; each message says what would do.
Geometry resolve_geometry(const Request& request, int64_t canvas_multiple);
// The end of a clip as what another goes on from: its last 17 n + 5 frames at 24 a second, which cover width x height, and the sound of their time,
// silence where there is none. Errors (kind request): fewer than 22 frames.
Condition start_condition(const Clip& clip, int64_t width, int64_t height, int sample_rate);
int64_t start_frames(const Clip& clip);   // how many those are; 0: too few
std::vector<Condition> prepare_conditions(const Request& request, const Geometry& geometry, int64_t canvas_multiple,
                                          const qwen3_vl::ProcessorConfig& processor, int sample_rate);

}  // namespace zt
