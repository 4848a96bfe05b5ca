#pragma once
// Geometry and packed layout of a MiniMax-H3 request. Source: diffusers 0.42.1 modular_pipelines/minimax_h3 (modular_pipeline.py,
// before_denoise.py). Positions are formed in float64, to the last bit of the reference's sums.
#include <span>
#include <vector>

#include "models/roles.h"

namespace zt::h3 {

constexpr int kFps = 24;
constexpr int kAudioLatentsPerSecond = 40;
constexpr int kFramesPerChunk = 17;       // pixel frames the video codec encodes at once
constexpr int kLatentsPerChunk = 5;
constexpr int kVideoTag = 0, kTextTag = 1, kAudioTag = 2;

struct CanvasRule {
  int64_t multiple, short_edge, max_pixels;   // 32, 768, 768 * 1344 as released
};
struct Canvas {
  int64_t width, height;
};

// The canvas of an aspect ratio. Errors (kind request): a ratio outside 1:4 .. 4:1.
Canvas resolve_canvas(double aspect_width, double aspect_height, const CanvasRule& rule);
// Python's round: half to even.
int64_t round_half_even(double x);

int64_t align_frames(int64_t frames);                 // up to the next 17 n + 5
int64_t video_latent_frames(int64_t aligned_frames);  // 5 n + 2
int64_t audio_latents(int64_t frames);                // per channel
bool is_legal_frame_count(int64_t frames);

struct LatentShape {
  int64_t frames = 0, height = 0, width = 0;
};

enum class Anchor { first, last };

struct ReferenceBlock {
  enum class Kind { image, video, audio } kind;
  LatentShape latents;            // image, video
  int64_t audio_latents = 0;      // audio, video with sound
};

struct LayoutRequest {
  std::vector<int32_t> text_token_tags;
  LatentShape target;
  int64_t target_audio_latents = 0;
  int64_t patch_h = 2, patch_w = 2;
  std::vector<Anchor> keyframes;               // fl2va
  std::vector<ReferenceBlock> references;      // ref2va; at most one of the two is not empty
  // Continuation: so many of the target's first latents and of its audio latents per channel are given. They become conditions at the
  // positions that they have in the target, picture before sound. Not of MiniMax-H3; H3-nano is trained for it (docs/nano.md).
  int64_t history_frames = 0, history_audio_latents = 0;
};

PackedLayout build_layout(const LayoutRequest& request);

struct RowTimesteps {
  std::vector<float> timestep;             // distinct values, ascending
  std::vector<int32_t> timestep_indices;   // [S]
};
// Text and target video at t_video, target audio at t_audio, visual conditions at max(t_video, condition_level), reference sound at 1.
RowTimesteps row_timesteps(const PackedLayout& layout, float t_video, float t_audio, double condition_level);

// [C, T, h, w] -> rows of (c, dy, dx), frame-major then row-major; and back.
void patchify(const float* latents, int64_t channels, LatentShape s, int64_t patch_h, int64_t patch_w, Mat rows);
void unpatchify(ConstMat rows, int64_t channels, LatentShape s, int64_t patch_h, int64_t patch_w, float* latents);

}  // namespace zt::h3
