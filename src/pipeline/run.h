#pragma once
// The run of one request, stage by stage: what Engine::generate and Channel are made of. Internal to the room.
#include <chrono>
#include <vector>

#include "base/behind.h"
#include "base/rng.h"
#include "kernels/elementwise.h"
#include "pipeline/conditions.h"
#include "pipeline/engine.h"
#include "pipeline/profile.h"
#include "pipeline/sampler.h"
#include "pipeline/trace.h"

namespace zt {

using Clock = std::chrono::steady_clock;

class StageTimer {
 public:
  explicit StageTimer(Result& result, Profile* profile = nullptr) : result_(result), profile_(profile) {}
  template <class F>
  auto time(Stage stage, F&& f) {
    struct Stop {
      StageTimer& t;
      Stage stage;
      Clock::time_point start = Clock::now();
      ~Stop() { t.span(stage, start, Clock::now()); }
    } stop{*this, stage};
    return f();
  }
  void span(Stage stage, Clock::time_point start, Clock::time_point end) {
    if (profile_) profile_->add(stage, Profile::Lane::engine, start, end);
    add(stage, std::chrono::duration<double>(end - start).count());
  }
  void add(Stage stage, double seconds, int64_t runs = 1) {
    for (StageTime& s : result_.stages)
      if (s.stage == stage) {
        s.seconds += seconds, s.runs += runs;
        return;
      }
    result_.stages.push_back({stage, seconds, runs});
  }

 private:
  Result& result_;
  Profile* profile_;
};

Tensor copy_of(const Tensor& t);
Tensor sound_of_rows(ConstMat rows);   // [2 n, channels], one ear after the other -> [2, channels, n]

// A chunk's frames as uint8 [count, height, width, 3], ties to even; false if one of its values is not finite.
bool to_rgb(const Exec& exec, const FrameChunk& chunk, std::vector<uint8_t>& rgb);

struct Run {
  Engine& engine;
  const Request& request;
  const Sink& sink;
  const Hooks& hooks;
  Result result{};
  StageTimer timer{result, hooks.profile};
  TorchGenerator generator{request.seed};
  Geometry geometry{};
  std::vector<Condition> conditions{};
  h3::Presentation presentation{};
  PackedLayout layout{};
  std::vector<Tensor> condition_latents{};     // [C, T, h, w] normalised, one per visual condition
  std::vector<h3::LatentShape> condition_shapes{};
  std::vector<Tensor> condition_sounds{};      // [2 * La, 32] normalised rows
  Tensor video_rows{}, audio_rows{};           // conditions first
  Clock::time_point previewed = Clock::now();  // when the last preview ended
  Clock::duration preview_time{};              // what it took
  StageTime encoding{Stage::encode};           // of the thread that encodes

  // What an earlier request made under the same key, or what `make` gives. A trace wants to see it made, given noise makes others.
  template <class Key, class Make>
  Tensor shared(CacheKind kind, Key&& key, Make&& make) {
    return !tracing() && request.noise.empty() && engine.caches().on() ? engine.caches().get(kind, key(), make) : make();
  }
  bool tracing() const { return static_cast<bool>(hooks.tap); }
  void tap(const std::string& name, const View& v) const {
    if (hooks.tap) hooks.tap(name, v);
  }
  void progress(Stage s, int64_t done, int64_t total) const {
    if (hooks.progress) hooks.progress(s, done, total);
  }

  // A draw of the request's generator, or what the request gives in its place.
  void draw(const std::string& name, const Shape& shape, std::span<float> out) {
    auto it = request.noise.find(name);
    if (it == request.noise.end()) return generator.randn(out);
    if (it->second.shape() != shape)
      fail(ErrorKind::request, "--noise: {} has shape {}, this request wants {}", name, to_string(it->second.shape()), to_string(shape));
    std::memcpy(out.data(), it->second.data(), out.size_bytes());
  }

  // Times what the encoder's thread does; that thread alone touches `encoding` until it is done.
  template <class F>
  void encode(F&& f) {
    const auto start = Clock::now();
    f();
    const auto end = Clock::now();
    encoding.seconds += std::chrono::duration<double>(end - start).count(), ++encoding.runs;
    if (hooks.profile) hooks.profile->add(Stage::encode, Profile::Lane::encoder, start, end);
  }

  void finite(ConstMat m, const char* stage) const { finite(all_finite(engine.exec(nullptr), m), stage); }
  void finite(bool all, const char* stage) const {
    if (!all)
      fail(ErrorKind::model, "{}: stage {} gave NaN or infinity; the weights are damaged or overflow in this plan (try --plan exact)",
           engine.index().folder, stage);
  }

  Latents latents(const Ctx& ctx);             // everything up to what the decoders take
  void prepare();
  Tensor encode_text(const Ctx& ctx);
  void encode_conditions(const Ctx& ctx);
  Tensor pixels_to_latents(const Ctx& ctx, const Condition& c, size_t index);
  Tensor sound_to_rows(const Ctx& ctx, const Sound& s, size_t index);
  void encode_pixels(const Ctx& ctx, const Condition& c, size_t index);
  void encode_sound(const Ctx& ctx, const Sound& s, size_t index);
  void build_layout_and_rows();
  int64_t restore(int64_t evaluations);
  void preview(const Ctx& ctx, float sigma, const Tensor& velocity);
  void denoise(const Ctx& ctx, ConstMat prompt_embeds);
  void take_history();
  void load();
  Latents made() const;                        // what the rows hold at the end, conditions left out
  void decode(const Ctx& ctx, Latents latents);
  // What two streams have now, to the sink, which may work beside them.
  void decode(const Ctx& ctx, SoundStream& sound, FrameStream& frames, TraceRecorder* recorder);
  void decode_sound(const Ctx& ctx, SoundStream& stream, TraceRecorder* recorder, Behind& encoder);
  void decode_video(const Ctx& ctx, FrameStream& stream, TraceRecorder* recorder, Behind& encoder);
  h3::RowTimesteps levels(const FlowSchedule& video, const FlowSchedule& audio, int64_t evaluation) const;
  void trace_layout() const;
};

}  // namespace zt
