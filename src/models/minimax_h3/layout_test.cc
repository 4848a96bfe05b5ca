#include "models/minimax_h3/layout.h"

#include <gtest/gtest.h>

#include <cstring>

#include "formats/safetensors.h"

namespace zt::h3 {
namespace {

const char* kGolden = ZT_SOURCE_DIR "/tests/golden/a/golden.safetensors";

template <class T>
std::vector<T> raw(const SafetensorsFile& f, const std::string& name) {
  const View* v = f.find(name);
  if (!v) throw std::runtime_error("no tensor " + name);
  std::vector<T> out(static_cast<size_t>(v->count()));
  std::memcpy(out.data(), v->data, out.size() * sizeof(T));
  return out;
}

LayoutRequest from_golden(const SafetensorsFile& f, const std::string& name) {
  const auto g = raw<int32_t>(f, name + ".geometry");
  LayoutRequest r;
  r.text_token_tags = raw<int32_t>(f, name + ".text_token_tags");
  r.target = {g[3], g[4], g[5]};
  r.target_audio_latents = g[6];
  return r;
}

// Every position to the last bit, every index and tag.
void expect_golden(const SafetensorsFile& f, const std::string& name, const LayoutRequest& r) {
  const PackedLayout l = build_layout(r);
  const auto g = raw<int32_t>(f, name + ".geometry");
  EXPECT_EQ(l.position_ids, raw<double>(f, name + ".position_ids")) << name;
  EXPECT_EQ(l.token_tags, raw<int32_t>(f, name + ".token_tags")) << name;
  EXPECT_EQ(l.video_indices, raw<int32_t>(f, name + ".video_indices")) << name;
  EXPECT_EQ(l.audio_indices, raw<int32_t>(f, name + ".audio_indices")) << name;
  EXPECT_EQ(l.text_indices, raw<int32_t>(f, name + ".text_indices")) << name;
  EXPECT_EQ(l.condition_video_rows, g[7]);
  EXPECT_EQ(l.condition_audio_rows, g[8]);
}

TEST(Layout, TextOnly) {
  SafetensorsFile f(kGolden);
  expect_golden(f, "t2va", from_golden(f, "t2va"));
}

TEST(Layout, Keyframes) {
  SafetensorsFile f(kGolden);
  LayoutRequest r = from_golden(f, "fl2va_first");
  r.keyframes = {Anchor::first};
  expect_golden(f, "fl2va_first", r);
  r = from_golden(f, "fl2va_first_last");
  r.keyframes = {Anchor::first, Anchor::last};
  expect_golden(f, "fl2va_first_last", r);
}

TEST(Layout, References) {
  SafetensorsFile f(kGolden);
  LayoutRequest r = from_golden(f, "ref2va");
  using Kind = ReferenceBlock::Kind;
  r.references = {{Kind::image, {1, 4, 4}, 0}, {Kind::video, {7, 2, 4}, 11}, {Kind::audio, {}, 5}};
  expect_golden(f, "ref2va", r);
}

TEST(RowTimesteps, DistinctValuesAndTheirRows) {
  SafetensorsFile f(kGolden);
  LayoutRequest r = from_golden(f, "fl2va_first");
  r.keyframes = {Anchor::first};
  const PackedLayout l = build_layout(r);
  const auto tv = raw<float>(f, "fl2va_first.video_timesteps"), ta = raw<float>(f, "fl2va_first.audio_timesteps");
  for (size_t i = 0; i < tv.size(); ++i) {
    const RowTimesteps t = row_timesteps(l, tv[i], ta[i], 0.999);
    EXPECT_EQ(t.timestep, raw<float>(f, fmt::format("fl2va_first.step{}.timestep", i)));
    if (i == 0) {
      EXPECT_EQ(t.timestep_indices, raw<int32_t>(f, "fl2va_first.step0.timestep_indices"));
    }
  }
}

TEST(RowTimesteps, ReferenceSoundIsClean) {
  SafetensorsFile f(kGolden);
  LayoutRequest r = from_golden(f, "ref2va");
  using Kind = ReferenceBlock::Kind;
  r.references = {{Kind::image, {1, 4, 4}, 0}, {Kind::video, {7, 2, 4}, 11}, {Kind::audio, {}, 5}};
  const RowTimesteps t = row_timesteps(build_layout(r), 0, 0, 0.999);
  EXPECT_EQ(t.timestep, (std::vector<float>{0.0f, 0.999f, 1.0f}));
  EXPECT_EQ(t.timestep_indices, raw<int32_t>(f, "ref2va.step0.timestep_indices"));
}

TEST(Frames, LegalLengths) {
  std::vector<int64_t> legal;
  for (int64_t f = 1; f <= 362; ++f)
    if (is_legal_frame_count(f)) legal.push_back(f);
  ASSERT_EQ(legal.size(), 22u);
  EXPECT_EQ(legal.front(), 5);
  EXPECT_EQ(legal.back(), 362);
  for (size_t n = 0; n < legal.size(); ++n) {
    EXPECT_EQ(video_latent_frames(legal[n]), 5 * static_cast<int64_t>(n) + 2);
    EXPECT_EQ(align_frames(legal[n]), legal[n]);
    if (n) {
      EXPECT_EQ(align_frames(legal[n - 1] + 1), legal[n]);
    }
  }
  EXPECT_EQ(audio_latents(124), 207);
  EXPECT_EQ(audio_latents(345), 575);
}

TEST(Canvas, ReleasedRule) {
  const CanvasRule rule{32, 768, 768 * 1344};
  auto size = [&](double w, double h) {
    const Canvas c = resolve_canvas(w, h, rule);
    return std::pair{c.width, c.height};
  };
  EXPECT_EQ(size(16, 9), (std::pair<int64_t, int64_t>{1344, 768}));
  EXPECT_EQ(size(9, 16), (std::pair<int64_t, int64_t>{768, 1344}));
  EXPECT_EQ(size(1, 1), (std::pair<int64_t, int64_t>{768, 768}));
  EXPECT_EQ(size(4, 1), (std::pair<int64_t, int64_t>{2016, 512}));   // the area cap: 2031.9 x 508.0 before snapping
  EXPECT_THROW(resolve_canvas(4.01, 1, rule), Error);
  EXPECT_THROW(resolve_canvas(0, 1, rule), Error);
  EXPECT_EQ(round_half_even(2.5), 2);
  EXPECT_EQ(round_half_even(3.5), 4);
}

TEST(Patchify, RowsAreChannelThenPatchRowThenPatchColumn) {
  const LatentShape s{2, 4, 6};
  std::vector<float> latents(3 * 2 * 4 * 6), back(latents.size());
  for (size_t i = 0; i < latents.size(); ++i) latents[i] = static_cast<float>(i);
  Tensor rows({2 * 2 * 3, 12});
  patchify(latents.data(), 3, s, 2, 2, rows.mat());
  // frame 1, patch row 1, patch column 2: row 1 * 6 + 1 * 3 + 2; channel 2, dy 1, dx 0: column 10
  EXPECT_EQ(rows.mat().row(11)[10], latents[((2 * 2 + 1) * 4 + 3) * 6 + 4]);
  unpatchify(rows.mat(), 3, s, 2, 2, back.data());
  EXPECT_EQ(back, latents);
}

// The given part of a continuation keeps the positions that it has in the whole window, and is clean.
TEST(Layout, HistoryKeepsItsPlaces) {
  LayoutRequest r;
  r.text_token_tags.assign(3, kTextTag);
  r.target = {22, 4, 6};
  r.target_audio_latents = 122;
  const PackedLayout whole = build_layout(r);
  r.history_frames = 7, r.history_audio_latents = 37;
  const PackedLayout given = build_layout(r);
  ASSERT_EQ(given.rows(), whole.rows());
  EXPECT_EQ(given.condition_video_rows, 7 * 2 * 3);
  EXPECT_EQ(given.condition_audio_rows, 2 * 37);
  auto position = [](const PackedLayout& l, int32_t row) {
    return std::vector<double>(l.position_ids.begin() + row * 3, l.position_ids.begin() + row * 3 + 3);
  };
  for (size_t i = 0; i < whole.video_indices.size(); ++i)
    EXPECT_EQ(position(given, given.video_indices[i]), position(whole, whole.video_indices[i])) << i;
  for (size_t side = 0; side < 2; ++side)
    for (size_t k = 0; k < 122; ++k) {
      const size_t at = k < 37 ? side * 37 + k : 74 + side * 85 + k - 37;
      EXPECT_EQ(position(given, given.audio_indices[at]), position(whole, whole.audio_indices[side * 122 + k])) << side << " " << k;
    }
  const RowTimesteps t = row_timesteps(given, 0.25f, 0.5f, 0.999);
  EXPECT_EQ(t.timestep, (std::vector<float>{0.25f, 0.5f, 0.999f, 1.0f}));
  auto level = [&](int32_t row) { return t.timestep[static_cast<size_t>(t.timestep_indices[static_cast<size_t>(row)])]; };
  EXPECT_EQ(level(given.video_indices[41]), 0.999f);
  EXPECT_EQ(level(given.video_indices[42]), 0.25f);
  EXPECT_EQ(level(given.audio_indices[73]), 1.0f);
  EXPECT_EQ(level(given.audio_indices[74]), 0.5f);
}

}  // namespace
}  // namespace zt::h3
