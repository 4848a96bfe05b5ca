#pragma once
// A request as the pipeline takes it: decoded media, numbers, no files and no JSON.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/minimax_h3/model_index.h"
#include "nn/adapter.h"
#include "nn/ctx.h"
#include "tensor/media.h"

namespace zt {

enum class Task { t2va, fl2va, ref2va, continuation };
const char* task_name(Task task);

using Reference = std::variant<Picture, Clip, Sound>;

// A clip as the denoiser makes it and the decoders take it (normalised).
struct Latents {
  Tensor video;    // [latent_channels, 5 n + 2, h, w]: 17 n + 5 frames
  Tensor sound;    // [2, audio latent channels, audio_latents(17 n + 5)]
};

// What a continuation follows: the last latents of a clip as the denoiser made them (normalised).
struct History {
  Tensor video;    // [latent_channels, 5 h + 2, h, w]: 17 h + 5 frames
  Tensor sound;    // rows [2 * n, audio row width], n = audio_latents(17 h + 5) of each channel
};

struct Request {
  Task task = Task::t2va;
  std::string prompt;
  std::optional<Picture> first_frame, last_frame;       // fl2va
  std::vector<Reference> references;                    // ref2va, in the order the model reads them
  std::optional<History> history;                       // continuation; num_frames counts its frames too
  bool long_video = false;                              // t2va of any length, by continuation (pipeline/channel.h)
  std::optional<Latents> start;                         // long_video: the clip that this one goes on from; it is given out again, and num_frames counts it
  std::optional<Clip> start_clip;                       // long_video, in place of `start`: a clip of pixels, whose end is encoded (start_condition)
  std::optional<int64_t> width, height;                 // both or neither; multiples of the canvas multiple
  std::optional<double> aspect_ratio;                   // width / height, when no size is given
  std::optional<int64_t> short_edge;                    // in place of the config's, when no size is given
  int64_t num_frames = 124;                             // aligned up to 17 n + 5
  int64_t grid_points = 50;                             // of the sigma grid: grid_points - 1 evaluations
  uint64_t seed = 0;
  std::vector<AdapterUse> adapters;                     // merged into the transformer's weights, all of them added up
  std::vector<std::string> warnings;                    // of whoever built it, for the result
  AdapterSchedule schedule;                             // of the adapters: shifts in place of the model's; its evaluations are in grid_points
  h3::PipelineConfig config;                            // the model's values, with the request's over them
  std::map<std::string, Tensor> noise;                  // draws given instead of drawn: noise_video, noise_audio_rows, condition_noise.I,
                                                        // condition_posterior_noise.I
};

enum class Stage { load, text, condition, denoise, video_decode, audio_decode, encode };
const char* stage_name(Stage stage);

// The denoise loop between two evaluations. Together with its request it is all that a run needs to go on: noise is drawn before the loop.
struct DenoiseState {
  int64_t evaluations = 0;                              // done so far
  View video_rows, audio_rows;                          // f32 [rows, row width], conditions first
  int64_t segment = 0;                                  // of a long video, which one is in the loop; the ones before it are Hooks::kept_segment's
};

// Progress, cancel, traces and saved states travel down as one argument.
class Profile;
struct Hooks {
  std::function<void(Stage stage, int64_t done, int64_t total)> progress;
  const std::atomic<bool>* cancel = nullptr;
  Tap tap;
  // After each evaluation; the views hold during the call. An exception of it ends the run.
  std::function<void(const DenoiseState& state)> step_done;
  // What the decoders take: of a channel each segment by itself, otherwise the whole clip, which another may go on from (Request::start).
  std::function<void(const Latents& latents)> latents;
  // Of a long video: each segment's latents as they are made, and those that an earlier run made, which are decoded again and not made again.
  std::function<void(int64_t segment, const Latents& latents)> segment_made;
  std::function<std::optional<Latents>(int64_t segment)> kept_segment;
  // A picture of what the clip is becoming, between evaluations, as often as a twentieth of the time pays for. RGB [height, width, 3].
  std::function<void(const uint8_t* rgb, int64_t width, int64_t height)> preview;
  // Goes on from here instead of from noise, to the same bytes. Errors (internal): a state of another request.
  const DenoiseState* resume = nullptr;
  Profile* profile = nullptr;                           // gets every span of the run (pipeline/profile.h)
};

struct ClipInfo {
  int64_t width = 0, height = 0, num_frames = 0;
  int fps = 24, sample_rate = 0, channels = 2;
  int64_t num_samples = 0;                              // of each channel
};

// Receives the result in order while it is being made.
struct Sink {
  std::function<void(const ClipInfo& info)> begin;
  std::function<void(const uint8_t* rgb, int64_t count)> frames;                       // uint8 [count, height, width, 3]
  std::function<void(const std::vector<const float*>& channels, int64_t samples)> sound;
};

struct StageTime {
  Stage stage;
  double seconds = 0;
  int64_t runs = 0;                                     // evaluations of the denoiser, chunks of a decoder
};

struct Result {
  ClipInfo clip;
  int64_t evaluations = 0;
  int64_t evaluations_left_out = 0;                     // of them, taken again from the one before (the plan's reuse)
  std::vector<StageTime> stages;                        // encoding may run beside decoding: the sum can exceed the whole
  std::vector<std::string> warnings;                    // parts of adapters that were not used
  size_t peak_activation_bytes = 0;                     // of the arena, the decoders' buffers included
};

}  // namespace zt
