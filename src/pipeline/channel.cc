#include "pipeline/channel.h"

#include <algorithm>

#include "pipeline/conditions.h"
#include "pipeline/run.h"

namespace zt {

namespace {

constexpr int64_t kHistoryLatents = 7, kHistorySound = 37;   // of 22 frames
// Audio latents that a decoder must have read before its samples are those of one that read everything: the released network sees 28 to
// each side, and holds back the last 28.
constexpr int64_t kSoundTail = kHistorySound + 64;

constexpr int64_t kLookahead = 17;   // frames: five of the video decoder, 28 audio latents of the released sound decoder

// `count` of what `parts` hold one after another along `axis`, from `first` on. Empty tensors are no parts.
Tensor span_of(const std::vector<const Tensor*>& parts, int axis, int64_t first, int64_t count) {
  const Shape& like = parts.back()->shape();
  int64_t rows = 1, inner = 1;
  for (size_t i = 0; i < like.size(); ++i) (static_cast<int>(i) < axis ? rows : inner) *= static_cast<int>(i) == axis ? 1 : like[i];
  Shape shape = like;
  shape[static_cast<size_t>(axis)] = count;
  Tensor out(shape);
  int64_t at = 0;   // of the part among all
  for (const Tensor* part : parts) {
    if (part->empty()) continue;
    const int64_t n = part->dim(axis), from = std::max<int64_t>(first - at, 0), to = std::min(first + count - at, n);
    for (int64_t r = 0; r < rows && from < to; ++r)
      std::copy_n(part->data() + (r * n + from) * inner, (to - from) * inner, out.data() + (r * count + at + from - first) * inner);
    at += n;
  }
  return out;
}

// The last `n`, or all, of `a` (which may be empty) followed by `b`.
Tensor tail(const Tensor& a, const Tensor& b, int64_t n, int axis) {
  const int64_t all = (a.empty() ? 0 : a.dim(axis)) + b.dim(axis), count = std::min(n, all);
  return span_of({&a, &b}, axis, all - count, count);
}

// [2, channels, n] -> rows [2 * kHistorySound, channels] of the last ones.
Tensor history_rows(const Tensor& sound) {
  const int64_t channels = sound.dim(1), n = sound.dim(2);
  Tensor rows({2 * kHistorySound, channels});
  for (int64_t side = 0; side < 2; ++side)
    for (int64_t k = 0; k < kHistorySound; ++k)
      for (int64_t c = 0; c < channels; ++c)
        rows.mat().row(side * kHistorySound + k)[c] = sound.data()[(side * channels + c) * n + n - kHistorySound + k];
  return rows;
}

// Every segment has draws of its own; the first has those of the seed itself.
uint64_t segment_seed(uint64_t seed, int64_t segment) { return seed + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(segment); }

}  // namespace

struct Channel::Decoders {
  std::unique_ptr<FrameStream> frames;
  std::unique_ptr<SoundStream> sound;
};

int64_t first_clip_frames(const h3::PipelineConfig& config) {
  int64_t frames = kHistoryFrames + kSegmentFrames;
  while (static_cast<double>(frames) < config.min_duration_s * h3::kFps) frames += kSegmentFrames;
  return frames;
}

Channel::Channel(Engine& engine, Request request) : engine_(engine), request_(std::move(request)) {
  if (request_.task != Task::t2va) fail(ErrorKind::request, "a channel begins with task t2va, not with {}", task_name(request_.task));
}

Channel::Channel(Engine& engine, Request request, ChannelState state) : Channel(engine, std::move(request)) {
  if (state.segments > 0 && (state.video.shape().size() != 4 || state.video.dim(1) != kHistoryLatents || state.sound.shape().size() != 3 ||
                             state.sound.dim(0) != 2 || state.sound.dim(2) < kHistorySound || state.frames < 0 || state.samples < 0))
    fail(ErrorKind::request, "the state of the channel holds latents {} and {}, wanted [C, {}, h, w] and [2, C, {} or more]", to_string(state.video.shape()),
         to_string(state.sound.shape()), kHistoryLatents, kHistorySound);
  state_ = std::move(state);
  resumed_ = state_.segments > 0;
}

Channel::Channel(Engine& engine, Request request, Latents start) : Channel(engine, std::move(request)) {
  const int64_t frames = frames_of(start), first = first_clip_frames(request_.config);
  state_.segments = 1 + std::max<int64_t>(0, (frames - first) / kSegmentFrames);   // as if a channel had made it
  state_.video = tail({}, start.video, kHistoryLatents, 1);
  state_.sound = tail({}, start.sound, kSoundTail, 2);
  decoders_ = std::make_unique<Decoders>(
      Decoders{engine.video_codec(false).open(std::move(start.video)), engine.audio_codec(false).open(std::move(start.sound))});
}

Channel::~Channel() = default;

Request Channel::next_request(const std::string& prompt, int64_t grid_points) const {
  const ChannelState& last = newest();
  Request r;
  r.prompt = prompt, r.grid_points = grid_points;
  r.width = request_.width, r.height = request_.height, r.aspect_ratio = request_.aspect_ratio, r.short_edge = request_.short_edge;
  r.config = request_.config, r.adapters = request_.adapters, r.schedule = request_.schedule;
  r.seed = segment_seed(request_.seed, last.segments);
  r.num_frames = first_clip_frames(r.config);
  if (last.segments > 0) {
    r.task = Task::continuation;
    r.num_frames = kHistoryFrames + kSegmentFrames;
    r.history = History{copy_of(last.video), history_rows(last.sound)};
  }
  return r;
}

Result Channel::make(const std::string& prompt, int64_t grid_points, const Hooks& hooks) {
  const Request request = next_request(prompt, grid_points);
  Exec exec = engine_.exec(hooks.cancel);
  Ctx ctx{exec, hooks.tap};
  const Sink none;
  Run run{engine_, request, none, hooks};
  Latents latents = run.latents(ctx);
  if (hooks.latents) hooks.latents(latents);
  run.result.peak_activation_bytes = engine_.arena().peak_bytes();
  wait_for_giving(std::move(latents), std::move(run.result));
  return waiting_.back().result;
}

void Channel::take(Latents latents) {
  const Request next = next_request("", 2);
  const Geometry g = resolve_geometry(next, engine_.index().canvas_multiple());
  const h3::ModelIndex& index = engine_.index();
  const int64_t history = next.history ? 1 : 0, frames = h3::video_latent_frames(next.num_frames) - history * kHistoryLatents;
  const Shape video{index.latent_channels, frames, g.height / index.spatial_ratio, g.width / index.spatial_ratio}, &sound = latents.sound.shape();
  if (latents.video.shape() != video || sound.size() != 3 || sound[0] != 2 || sound[2] != h3::audio_latents(next.num_frames) - history * kHistorySound)
    fail(ErrorKind::request, "the kept segment has latents {} and {}, wanted {} and its sound", to_string(latents.video.shape()), to_string(sound), to_string(video));
  wait_for_giving(std::move(latents), {});
}

void Channel::wait_for_giving(Latents latents, Result result) {
  Made m;
  m.latents = std::move(latents);
  const ChannelState& last = newest();
  m.after.segments = last.segments + 1;
  m.after.video = tail(last.video, m.latents.video, kHistoryLatents, 1);
  m.after.sound = tail(last.sound, m.latents.sound, kSoundTail, 2);
  m.result = std::move(result);
  waiting_.push_back(std::move(m));
}

Result Channel::give(const Sink& sink, const Hooks& hooks) {
  if (waiting_.empty()) fail(ErrorKind::internal, "no segment of the channel waits to be given out");
  Exec exec = engine_.exec(hooks.cancel);
  Ctx ctx{exec, hooks.tap};
  Made m = std::move(waiting_.front());
  waiting_.pop_front();
  m.after.frames = state_.frames, m.after.samples = state_.samples;
  Sink counted = sink;
  counted.frames = [&](const uint8_t* rgb, int64_t count) { m.after.frames += count, sink.frames(rgb, count); };
  counted.sound = [&](const std::vector<const float*>& channels, int64_t samples) { m.after.samples += samples, sink.sound(channels, samples); };
  Run run{engine_, request_, counted, hooks};
  run.result = std::move(m.result);

  VideoCodec& video = engine_.video_codec(false);
  AudioCodec& audio = engine_.audio_codec(false);
  if (resumed_) {   // decode what was given out already, to have what comes after it
    decoders_ = std::make_unique<Decoders>(Decoders{video.open(copy_of(state_.video)), audio.open(copy_of(state_.sound))});
    FrameChunk f;
    SoundChunk s;
    while (decoders_->frames->next(ctx, f)) {}
    while (decoders_->sound->next(ctx, s)) {}
    resumed_ = false;
  }
  const int64_t ratio = engine_.index().spatial_ratio, height = m.latents.video.dim(2) * ratio, width = m.latents.video.dim(3) * ratio;
  if (decoders_) {
    decoders_->frames->append(m.latents.video);
    decoders_->sound->append(m.latents.sound);
  } else {
    decoders_ = std::make_unique<Decoders>(Decoders{video.open(std::move(m.latents.video)), audio.open(std::move(m.latents.sound))});
  }
  run.result.clip = {width, height, 0, h3::kFps, audio.sample_rate(), 2, 0};
  if (!begun_) sink.begin(run.result.clip);
  begun_ = true;
  run.decode(ctx, *decoders_->sound, *decoders_->frames, nullptr);
  state_ = std::move(m.after);
  run.result.peak_activation_bytes = std::max(run.result.peak_activation_bytes, engine_.arena().peak_bytes());
  return std::move(run.result);
}

int64_t long_segments(int64_t frames, int64_t start, const h3::PipelineConfig& config) {
  const int64_t more = frames + kLookahead - (start ? start : first_clip_frames(config));   // the last frames and their sound come out with what follows them
  return (start ? 0 : 1) + std::max<int64_t>(0, (more + kSegmentFrames - 1) / kSegmentFrames);
}

int64_t frames_of(const Latents& clip) { return (clip.video.dim(1) - 2) / h3::kLatentsPerChunk * h3::kFramesPerChunk + h3::kLatentsPerChunk; }

namespace {

// What was given is of the size that is to be made, and long enough to go on from.
void check_start(const Latents& start, const Geometry& g, const h3::ModelIndex& index) {
  const Shape &video = start.video.shape(), &sound = start.sound.shape();
  const int64_t h = g.height / index.spatial_ratio, w = g.width / index.spatial_ratio;
  const bool whole = video.size() == 4 && sound.size() == 3 && video[0] == index.latent_channels && video[1] >= kHistoryLatents &&
                     video[1] % h3::kLatentsPerChunk == 2 && video[2] == h && video[3] == w && sound[0] == 2 && sound[2] == h3::audio_latents(frames_of(start));
  if (!whole)
    fail(ErrorKind::request, "the clip to go on from has latents {} and {}, wanted [{}, 5 n + 2, {}, {}] of at least {} frames, and its sound", to_string(video),
         to_string(sound), index.latent_channels, h, w, kHistoryFrames);
  if (frames_of(start) >= g.num_frames)
    fail(ErrorKind::request, "{} frames; the clip to go on from has {} already", g.num_frames, frames_of(start));
}

// The end of a clip as the latents that a run would have made it from.
Latents encode_start(Engine& engine, const Request& request, const Geometry& g, const Hooks& hooks, Result& result) {
  Exec exec = engine.exec(hooks.cancel);
  Ctx ctx{exec, hooks.tap};
  const Sink none;
  Run run{engine, request, none, hooks};
  run.timer.time(Stage::condition, [&] {
    const Condition c = start_condition(*request.start_clip, g.width, g.height, engine.index().sample_rate);
    run.encode_pixels(ctx, c, 0);
    run.encode_sound(ctx, *c.sound, 0);
  });
  Latents out{std::move(run.condition_latents[0]), sound_of_rows(run.condition_sounds[0].mat())};
  StageTimer timer(result);
  for (const StageTime& s : run.result.stages) timer.add(s.stage, s.seconds, s.runs);
  result.peak_activation_bytes = engine.arena().peak_bytes();
  return out;
}

}  // namespace

Result generate_long(Engine& engine, const Request& request, const Sink& sink, const Hooks& hooks) {
  const Geometry geometry = resolve_geometry(request, engine.index().canvas_multiple());
  const int64_t frames = geometry.num_frames;
  Result all;
  std::optional<Latents> encoded;
  if (request.start_clip) encoded = encode_start(engine, request, geometry, hooks, all);
  const Latents* start = encoded ? &*encoded : request.start ? &*request.start : nullptr;
  std::vector<Latents> made;   // for hooks.latents
  if (start) {
    check_start(*start, geometry, engine.index());
    made.push_back({copy_of(start->video), copy_of(start->sound)});
  }
  const int64_t segments = long_segments(frames, start ? frames_of(*start) : 0, request.config);
  Request base;
  base.width = request.width, base.height = request.height, base.aspect_ratio = request.aspect_ratio, base.short_edge = request.short_edge;
  base.config = request.config, base.seed = request.seed, base.adapters = request.adapters, base.schedule = request.schedule;
  Channel channel = start ? Channel(engine, std::move(base), {copy_of(start->video), copy_of(start->sound)}) : Channel(engine, std::move(base));

  int64_t segment = 0, frames_left = frames, samples_left = 0;
  Sink cut;
  cut.begin = [&](const ClipInfo& clip) {
    all.clip = clip;
    all.clip.num_frames = frames;
    all.clip.num_samples = samples_left = h3::audio_latents(frames) * clip.sample_rate / h3::kAudioLatentsPerSecond;
    sink.begin(all.clip);
  };
  cut.frames = [&](const uint8_t* rgb, int64_t n) {
    n = std::min(n, frames_left), frames_left -= n;
    if (n > 0) sink.frames(rgb, n);
  };
  cut.sound = [&](const std::vector<const float*>& channels, int64_t n) {
    n = std::min(n, samples_left), samples_left -= n;
    if (n > 0) sink.sound(channels, n);
  };
  Hooks inner = hooks;
  if (hooks.step_done)
    inner.step_done = [&](const DenoiseState& s) {
      DenoiseState named = s;
      named.segment = segment;
      hooks.step_done(named);
    };
  inner.progress = [&](Stage stage, int64_t done, int64_t total) {
    if (hooks.progress) hooks.progress(stage, segment * total + done, segments * total);
  };
  auto keep = [&](const Latents& l) {
    if (hooks.latents) made.push_back({copy_of(l.video), copy_of(l.sound)});
  };
  inner.latents = [&](const Latents& l) {
    keep(l);
    if (hooks.segment_made) hooks.segment_made(segment, l);
  };
  bool going_on = true;   // after segments that are kept
  while (frames_left > 0 || samples_left > 0) {
    std::optional<Latents> kept;
    if (going_on && hooks.kept_segment) kept = hooks.kept_segment(segment);
    going_on = kept.has_value();
    if (kept) {
      keep(*kept);
      channel.take(std::move(*kept));
    } else {
      inner.resume = hooks.resume && hooks.resume->segment == segment ? hooks.resume : nullptr;
      channel.make(request.prompt, request.grid_points, inner);
    }
    const Result part = channel.give(cut, inner);
    ++segment;
    StageTimer timer(all);
    for (const StageTime& s : part.stages) timer.add(s.stage, s.seconds, s.runs);
    if (part.evaluations) all.evaluations = part.evaluations;
    all.evaluations_left_out += part.evaluations_left_out;
    all.peak_activation_bytes = std::max(all.peak_activation_bytes, part.peak_activation_bytes);
  }
  if (hooks.latents) {
    std::vector<const Tensor*> video, sound;
    for (const Latents& l : made) video.push_back(&l.video), sound.push_back(&l.sound);
    hooks.latents({span_of(video, 1, 0, h3::video_latent_frames(frames)), span_of(sound, 2, 0, h3::audio_latents(frames))});
  }
  return all;
}

}  // namespace zt
