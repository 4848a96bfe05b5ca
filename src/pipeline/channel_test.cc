#include "pipeline/channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>

#include "pipeline/run.h"

namespace zt {
namespace {

// What a viewer gets.
struct Kept {
  int begun = 0;
  std::vector<uint8_t> rgb;
  std::vector<float> left, right;
  int64_t frame_bytes = 0;
  Sink sink() {
    return {[this](const ClipInfo& c) { ++begun, frame_bytes = 3 * c.width * c.height; EXPECT_EQ(c.num_frames, 0); },
            [this](const uint8_t* p, int64_t n) { rgb.insert(rgb.end(), p, p + n * frame_bytes); },
            [this](const std::vector<const float*>& c, int64_t n) {
              ASSERT_EQ(c.size(), 2u);
              left.insert(left.end(), c[0], c[0] + n), right.insert(right.end(), c[1], c[1] + n);
            }};
  }
};

Engine& nano() {
  static Engine engine(std::string(ZT_SOURCE_DIR) + "/models/h3-nano", fast_plan(), 2);
  return engine;
}

Request small(uint64_t seed) {
  Request r;
  r.seed = seed, r.width = 64, r.height = 64;
  r.config = nano().index().config;
  return r;
}

TEST(Channel, GoesOnForeverInOneDecode) {
  Channel channel(nano(), small(3));
  Kept kept;
  for (int i = 0; i < 4; ++i) channel.next("a red circle bounces", 3, kept.sink(), {});
  EXPECT_EQ(kept.begun, 1);
  const ChannelState& s = channel.state();
  EXPECT_EQ(s.segments, 4);
  EXPECT_EQ(s.frames, 68 + 3 * kSegmentFrames);   // of 73 + 3 * 51 made
  EXPECT_EQ(static_cast<int64_t>(kept.rgb.size()), s.frames * 64 * 64 * 3);
  EXPECT_EQ(static_cast<int64_t>(kept.left.size()), s.samples);
  EXPECT_EQ(kept.left.size(), kept.right.size());
  const int64_t made = (122 + 3 * 85) * 800;
  EXPECT_LT(s.samples, made);
  EXPECT_GT(s.samples, made - 28 * 800 - 1);   // no more than the released decoder's look-ahead behind
}

TEST(Channel, ItsFirstClipIsThatOfAPlainRequest) {
  Channel channel(nano(), small(3));
  Kept live, plain;
  channel.next("a red circle bounces", 3, live.sink(), {});
  Request r = small(3);
  r.prompt = "a red circle bounces", r.grid_points = 3, r.num_frames = first_clip_frames(r.config);
  Sink sink = plain.sink();
  sink.begin = [&](const ClipInfo& c) { plain.frame_bytes = 3 * c.width * c.height; };
  nano().generate(r, sink, {});
  ASSERT_LT(live.rgb.size(), plain.rgb.size());
  EXPECT_TRUE(std::equal(live.rgb.begin(), live.rgb.end(), plain.rgb.begin()));
  ASSERT_LT(live.left.size(), plain.left.size());
  EXPECT_TRUE(std::equal(live.left.begin(), live.left.end(), plain.left.begin()));
}

TEST(Channel, ResumesToTheSameBytes) {
  const std::string before = "a red circle bounces", after = "a blue square slides left";
  Channel whole(nano(), small(5));
  Kept all, first, second;
  for (int i = 0; i < 4; ++i) whole.next(i < 2 ? before : after, 3, all.sink(), {});

  Channel one(nano(), small(5));
  for (int i = 0; i < 2; ++i) one.next(before, 3, first.sink(), {});
  const ChannelState& s = one.state();
  ChannelState saved{s.segments, s.frames, s.samples, Tensor(s.video.shape()), Tensor(s.sound.shape())};
  std::copy_n(s.video.data(), s.video.count(), saved.video.data());
  std::copy_n(s.sound.data(), s.sound.count(), saved.sound.data());
  Channel other(nano(), small(5), std::move(saved));
  for (int i = 0; i < 2; ++i) other.next(after, 3, second.sink(), {});
  EXPECT_EQ(second.begun, 1);
  EXPECT_EQ(other.state().frames, whole.state().frames);
  EXPECT_EQ(other.state().samples, whole.state().samples);

  first.rgb.insert(first.rgb.end(), second.rgb.begin(), second.rgb.end());
  first.left.insert(first.left.end(), second.left.begin(), second.left.end());
  EXPECT_EQ(first.rgb, all.rgb);
  EXPECT_EQ(first.left, all.left);
}

TEST(Channel, WhatWaitsCanBeForgotten) {
  const std::string before = "a red circle bounces", after = "a blue square slides left";
  Channel plain(nano(), small(5)), turned(nano(), small(5));
  Kept all, kept;
  for (int i = 0; i < 3; ++i) plain.next(i < 1 ? before : after, 3, all.sink(), {});

  for (int i = 0; i < 3; ++i) turned.make(before, 3, {});
  EXPECT_EQ(turned.waiting(), 3);
  EXPECT_EQ(turned.state().segments, 0);
  turned.give(kept.sink(), {});
  EXPECT_EQ(turned.waiting(), 2);
  turned.forget_waiting();
  EXPECT_THROW(turned.give(kept.sink(), {}), Error);
  turned.make(after, 3, {}), turned.make(after, 3, {});   // both before the first of them is given out
  const Result r = turned.give(kept.sink(), {});
  turned.give(kept.sink(), {});
  EXPECT_EQ(kept.rgb, all.rgb);
  EXPECT_EQ(kept.left, all.left);
  std::set<Stage> stages;
  for (const StageTime& s : r.stages) stages.insert(s.stage);
  EXPECT_TRUE(stages.count(Stage::denoise) && stages.count(Stage::video_decode));
}

TEST(Channel, HoldsNoMoreAfterManySegments) {
  Channel channel(nano(), small(7));
  Kept kept;
  auto held = [&] { return channel.state().video.count() + channel.state().sound.count(); };
  for (int i = 0; i < 3; ++i) channel.next("a red circle bounces", 2, kept.sink(), {});
  const int64_t early = held();
  for (int i = 0; i < 20; ++i) channel.next("a red circle bounces", 2, kept.sink(), {});
  EXPECT_EQ(held(), early);
}

TEST(Channel, RefusesAnotherTaskAndAStateOfAnotherShape) {
  Request r = small(1);
  r.task = Task::fl2va;
  EXPECT_THROW(Channel(nano(), std::move(r)), Error);
  ChannelState s;
  s.segments = 1, s.video = Tensor({24, 6, 4, 4}), s.sound = Tensor({2, 32, 101});
  EXPECT_THROW(Channel(nano(), small(1), std::move(s)), Error);
}

TEST(Channel, ALongVideoHasExactlyItsFramesAndSound) {
  Request r = small(9);
  r.prompt = "a red circle bounces", r.grid_points = 2, r.num_frames = 400, r.long_video = true;
  Kept kept;
  Sink sink = kept.sink();
  ClipInfo info;
  sink.begin = [&](const ClipInfo& c) { info = c, kept.frame_bytes = 3 * c.width * c.height; };
  int64_t done = 0, total = 0;
  Hooks hooks;
  hooks.progress = [&](Stage stage, int64_t d, int64_t t) {
    if (stage == Stage::denoise) done = d, total = t;
  };
  const Result result = nano().generate(r, sink, hooks);
  EXPECT_EQ(info.num_frames, 413);   // 17 n + 5
  EXPECT_EQ(result.clip.num_frames, 413);
  EXPECT_EQ(static_cast<int64_t>(kept.rgb.size()), 413 * 64 * 64 * 3);
  EXPECT_EQ(info.num_samples, 688 * 800);
  EXPECT_EQ(static_cast<int64_t>(kept.left.size()), info.num_samples);
  EXPECT_LE(done, total);
  EXPECT_GE(done, total - 1);   // a decoder that looks ahead less needs a segment less
  Kept live;
  Channel channel(nano(), small(9));
  for (int i = 0; i < 3; ++i) channel.next(r.prompt, r.grid_points, live.sink(), {});
  EXPECT_TRUE(std::equal(live.rgb.begin(), live.rgb.end(), kept.rgb.begin()));
  EXPECT_TRUE(std::equal(live.left.begin(), live.left.end(), kept.left.begin()));
  r.task = Task::fl2va, r.first_frame = Picture{64, 64, std::vector<uint8_t>(64 * 64 * 3)};
  EXPECT_THROW(nano().generate(r, sink, {}), Error);
}

TEST(Channel, AClipThatIsGoneOnFromEndsAsOneThatWasNeverCut) {
  Request r = small(4);
  r.prompt = "a red circle bounces", r.grid_points = 2, r.num_frames = 73;
  Kept first, on, whole;
  auto to = [](Kept& k) {
    Sink s = k.sink();
    s.begin = [&k](const ClipInfo& c) { k.frame_bytes = 3 * c.width * c.height; };
    return s;
  };
  Latents clip, longer;
  auto keep = [](Latents& to) {
    return [&to](const Latents& l) { to = {copy_of(l.video), copy_of(l.sound)}; };
  };
  Hooks hooks;
  hooks.latents = keep(clip);
  nano().generate(r, to(first), hooks);
  EXPECT_EQ(frames_of(clip), 73);
  r.long_video = true, r.num_frames = 158;
  nano().generate(r, to(whole), {});
  r.start = std::move(clip);
  hooks.latents = keep(longer);
  nano().generate(r, to(on), hooks);
  EXPECT_EQ(on.rgb, whole.rgb);
  EXPECT_EQ(on.left, whole.left);
  EXPECT_EQ(frames_of(longer), 158);
  EXPECT_EQ(longer.sound.dim(2), 263);
  EXPECT_EQ(static_cast<int64_t>(on.rgb.size()), 158 * on.frame_bytes);
  r.num_frames = 73;
  EXPECT_THROW(nano().generate(r, to(on), {}), Error);   // nothing would be added
  r.num_frames = 158, r.width = 96;
  EXPECT_THROW(nano().generate(r, to(on), {}), Error);   // another size
}

Clip moving(int frames, double fps, int width, int height) {   // with sound: a ramp, so that a place in time can be told
  Clip clip{fps, {}, Sound{16000, {std::vector<float>(static_cast<size_t>(frames * 16000 / fps))}}};
  for (int i = 0; i < frames; ++i) {
    Picture p{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * 3))};
    for (size_t k = 0; k < p.rgb.size(); ++k) p.rgb[k] = static_cast<uint8_t>(k * 7 + static_cast<size_t>(i) * 3);
    clip.frames.push_back(std::move(p));
  }
  for (size_t k = 0; k < clip.sound->channels[0].size(); ++k) clip.sound->channels[0][k] = static_cast<float>(k) / 1e6f;
  return clip;
}

TEST(Channel, WhatIsGoneOnFromIsTheEndOfAClip) {
  const Clip clip = moving(70, 24, 64, 64);
  EXPECT_EQ(start_frames(clip), 56);
  const Condition c = start_condition(clip, 64, 64, 32000);
  ASSERT_EQ(c.pixels.size(), 56u);
  EXPECT_EQ(c.pixels.back().rgb, clip.frames.back().rgb);
  EXPECT_EQ(c.pixels.front().rgb, clip.frames[14].rgb);
  ASSERT_EQ(c.sound->channels.size(), 2u);
  EXPECT_EQ(c.sound->samples(), h3::audio_latents(56) * 800);
  EXPECT_NEAR(c.sound->channels[1][16000], (14.0 / 24 + 0.5) * 16000 / 1e6, 1e-4);   // half a second after the first frame that is kept
  Clip slow = moving(20, 12, 40, 60);   // 40 frames at 24 a second
  slow.sound.reset();
  const Condition s = start_condition(slow, 64, 32, 32000);
  ASSERT_EQ(s.pixels.size(), 39u);
  EXPECT_TRUE(s.pixels[0].width == 64 && s.pixels[0].height == 32 && s.pixels[37].rgb == s.pixels[38].rgb);
  EXPECT_EQ(s.sound->samples(), h3::audio_latents(39) * 800);
  EXPECT_EQ(*std::max_element(s.sound->channels[0].begin(), s.sound->channels[0].end()), 0);
  EXPECT_EQ(start_frames(moving(21, 24, 32, 32)), 0);
  EXPECT_EQ(start_frames(moving(22, 24, 32, 32)), 22);
  EXPECT_EQ(start_frames(Clip{}), 0);
  EXPECT_THROW(start_condition(moving(21, 24, 32, 32), 32, 32, 32000), Error);
}

TEST(Channel, AClipOfPixelsIsGoneOnFrom) {
  Request r = small(4);
  r.prompt = "a red circle bounces", r.grid_points = 2, r.num_frames = 107, r.long_video = true;
  auto make = [&](Clip clip, Latents* latents = nullptr) {
    Kept k;
    Sink s = k.sink();
    s.begin = [&k](const ClipInfo& c) { k.frame_bytes = 3 * c.width * c.height; };
    Hooks hooks;
    if (latents) hooks.latents = [&](const Latents& l) { *latents = {copy_of(l.video), copy_of(l.sound)}; };
    r.start_clip = std::move(clip);
    const Result result = nano().generate(r, s, hooks);
    EXPECT_TRUE(std::any_of(result.stages.begin(), result.stages.end(), [](const StageTime& t) { return t.stage == Stage::condition; }));
    return k;
  };
  const Clip clip = moving(70, 24, 64, 64);
  Clip end = clip;   // its last 56 frames by themselves, silent
  end.frames.erase(end.frames.begin(), end.frames.begin() + 14), end.sound.reset();
  Clip silent = clip;
  silent.sound.reset();
  Latents latents, again;
  const Kept whole = make(clip, &latents), mute = make(silent), cut = make(end);
  EXPECT_EQ(static_cast<int64_t>(whole.rgb.size()), 107 * whole.frame_bytes);
  EXPECT_EQ(frames_of(latents), 107);
  EXPECT_EQ(mute.rgb, cut.rgb);
  EXPECT_EQ(mute.left, cut.left);
  EXPECT_NE(whole.left, mute.left);
  // What its pixels became is what a clip of latents would have been.
  r.start_clip.reset();
  Tensor video({latents.video.dim(0), 17, latents.video.dim(2), latents.video.dim(3)}), sound({2, latents.sound.dim(1), h3::audio_latents(56)});
  for (int64_t row = 0; row < video.dim(0); ++row)
    std::copy_n(latents.video.data() + row * latents.video.count() / video.dim(0), video.count() / video.dim(0), video.data() + row * video.count() / video.dim(0));
  for (int64_t row = 0; row < 2 * sound.dim(1); ++row)
    std::copy_n(latents.sound.data() + row * latents.sound.dim(2), sound.dim(2), sound.data() + row * sound.dim(2));
  r.start = Latents{std::move(video), std::move(sound)};
  Kept on;
  Sink s = on.sink();
  s.begin = [&on](const ClipInfo& c) { on.frame_bytes = 3 * c.width * c.height; };
  nano().generate(r, s, {});
  EXPECT_EQ(on.rgb, whole.rgb);
  EXPECT_EQ(on.left, whole.left);
  r.start.reset(), r.start_clip = clip, r.long_video = false;
  EXPECT_THROW(nano().generate(r, s, {}), Error);
}

// What a worker keeps of a long video.
struct Saved {
  std::vector<Latents> segments;
  Tensor video_rows, audio_rows;
  int64_t segment = 0, evaluations = 0;
  Tensor copy(const View& v) {
    Tensor t(v.shape);
    std::memcpy(t.data(), v.data, static_cast<size_t>(t.count()) * sizeof(float));
    return t;
  }
};

TEST(Channel, ALongVideoThatIsCutAnywhereGoesOnToTheSameBytes) {
  Request r = small(6);
  r.prompt = "a red circle bounces", r.grid_points = 4, r.num_frames = 158, r.long_video = true;
  Kept whole;
  Latents all;
  auto to = [](Kept& k) {
    Sink s = k.sink();
    s.begin = [&k](const ClipInfo& c) { k.frame_bytes = 3 * c.width * c.height; };
    return s;
  };
  Hooks hooks;
  int64_t evaluations = 0;
  hooks.step_done = [&](const DenoiseState&) { ++evaluations; };
  hooks.latents = [&](const Latents& l) { all = {copy_of(l.video), copy_of(l.sound)}; };
  nano().generate(r, to(whole), hooks);
  ASSERT_GE(evaluations, 3 * 3);   // segments of three evaluations each
  for (int64_t cut = 1; cut <= evaluations; cut += 2) {
    Saved saved;
    int64_t done = 0;
    hooks = {};
    hooks.step_done = [&](const DenoiseState& s) {
      saved.video_rows = saved.copy(s.video_rows), saved.audio_rows = saved.copy(s.audio_rows), saved.segment = s.segment, saved.evaluations = s.evaluations;
      if (++done == cut) throw Cancelled();
    };
    hooks.segment_made = [&](int64_t segment, const Latents& l) {
      ASSERT_EQ(segment, static_cast<int64_t>(saved.segments.size()));
      saved.segments.push_back({copy_of(l.video), copy_of(l.sound)});
    };
    Kept none, kept;
    EXPECT_THROW(nano().generate(r, to(none), hooks), Cancelled);
    const DenoiseState state{saved.evaluations, saved.video_rows.view(), saved.audio_rows.view(), saved.segment};
    hooks.resume = &state;
    hooks.kept_segment = [&](int64_t segment) -> std::optional<Latents> {
      const size_t i = static_cast<size_t>(segment);
      if (i >= saved.segments.size()) return std::nullopt;
      return Latents{copy_of(saved.segments[i].video), copy_of(saved.segments[i].sound)};
    };
    done = 0;
    hooks.step_done = [&](const DenoiseState&) { ++done; };
    Latents again;
    hooks.latents = [&](const Latents& l) { again = {copy_of(l.video), copy_of(l.sound)}; };
    nano().generate(r, to(kept), hooks);
    EXPECT_EQ(done, evaluations - cut) << "after evaluation " << cut;
    EXPECT_EQ(kept.rgb, whole.rgb) << "after evaluation " << cut;
    EXPECT_EQ(kept.left, whole.left) << "after evaluation " << cut;
    ASSERT_EQ(again.video.shape(), all.video.shape());
    EXPECT_TRUE(std::equal(all.video.data(), all.video.data() + all.video.count(), again.video.data()));
  }
  hooks = {};
  hooks.kept_segment = [](int64_t) { return Latents{Tensor({24, 7, 4, 4}), Tensor({2, 32, 37})}; };
  EXPECT_THROW(nano().generate(r, to(whole), hooks), Error);   // of another size
}

}  // namespace
}  // namespace zt
