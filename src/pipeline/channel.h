#pragma once
// Video with sound that goes on for as long as it is asked to: a first clip, then segments that each follow the end of what was made,
// through one decode, in memory that does not grow. The scheme H3-nano is trained for (docs/nano.md): a window of 73 frames, the first
// 22 of them given as clean latents of picture and sound, the other 51 made; 51 frames are 85 audio latents exactly, 2.125 s.
#include <deque>
#include <memory>

#include "pipeline/engine.h"

namespace zt {

constexpr int64_t kSegmentFrames = 51, kHistoryFrames = 22;

// All that a channel needs to go on elsewhere. Values are those of the denoiser (normalised latents).
struct ChannelState {
  int64_t segments = 0;              // made so far, the first clip included
  int64_t frames = 0, samples = 0;   // given out so far
  Tensor video;                      // [latent_channels, 7, h, w]: the last ones
  Tensor sound;                      // [2, latent_channels, n]: the last ones, enough of them for the decoder to begin again
};

class Channel {
 public:
  // `request`: task t2va; its size, seed, grid points and config hold for the channel, num_frames and prompt do not matter.
  // Errors (kind request): one of another task.
  Channel(Engine& engine, Request request);
  // Goes on after `state`, to the bytes of a channel that was never interrupted.
  Channel(Engine& engine, Request request, ChannelState state);
  // Goes on after a finished clip of at least 22 frames, which is given out again with the first segment: one decoder goes through both.
  Channel(Engine& engine, Request request, Latents start);
  ~Channel();

  // Makes the latents of the next segment after `prompt`, `grid_points` - 1 evaluations; they wait until they are given out.
  // Errors as Engine::generate; after one (Cancelled too) of these calls this object is of no more use: make another from the last state.
  Result make(const std::string& prompt, int64_t grid_points, const Hooks& hooks);
  // The next segment as an earlier run of the same channel made it. Errors (request): latents of another size.
  void take(Latents latents);
  // Decodes the segment that waits longest and gives out what can be seen and heard of it: frames up to five short of what is made, sound
  // up to the decoder's look-ahead short. sink.begin is called once, before the first frames, with num_frames 0. Errors (internal): none waits.
  // The result holds all stages of that segment, those of make() too.
  Result give(const Sink& sink, const Hooks& hooks);
  Result next(const std::string& prompt, int64_t grid_points, const Sink& sink, const Hooks& hooks) { return make(prompt, grid_points, hooks), give(sink, hooks); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }   // segments
  void forget_waiting() { waiting_.clear(); }                                 // the next one made follows what was given out
  // After what was given out; good until the next give().
  const ChannelState& state() const { return state_; }

 private:
  struct Decoders;
  struct Made {
    Latents latents;
    ChannelState after;   // frames and samples: filled in when it is given out
    Result result;
  };
  const ChannelState& newest() const { return waiting_.empty() ? state_ : waiting_.back().after; }
  Request next_request(const std::string& prompt, int64_t grid_points) const;
  void wait_for_giving(Latents latents, Result result);

  Engine& engine_;
  Request request_;
  ChannelState state_;
  std::deque<Made> waiting_;
  bool resumed_ = false, begun_ = false;
  std::unique_ptr<Decoders> decoders_;
};

// `request` with long_video set: as many segments as its frames take, cut to exactly those frames and their sound. The draws are a channel's,
// also those after a `start` that was a channel's: it goes on to the bytes of one that was never cut. Errors also (request): a start of another size.
// It goes on after the segments that hooks.kept_segment has, from hooks.resume if that is of the next one, to the bytes of a run that was never cut.
// Errors as Engine::generate.
Result generate_long(Engine& engine, const Request& request, const Sink& sink, const Hooks& hooks);

// Evaluations of the denoiser's window that a long video of so many frames takes are this many times those of a clip; `start`: frames of
// the clip that it goes on from, 0 if none.
int64_t long_segments(int64_t frames, int64_t start, const h3::PipelineConfig& config);

// Frames of a clip from its latents.
int64_t frames_of(const Latents& clip);

// Frames of the first clip: at least a window's, a whole number of segments more where the model's shortest clip is longer.
int64_t first_clip_frames(const h3::PipelineConfig& config);

}  // namespace zt
