#include "media/live_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "base/error.h"
#include "media/decode.h"

namespace zt {
namespace {

constexpr int kWidth = 64, kHeight = 48, kGroup = 17, kRate = 32000;

struct Stream {
  std::string init;
  std::vector<Fragment> fragments;
};

// A grey that rises by two a frame, and a tone, fed in pieces that do not fit the fragments.
Stream make(int64_t frames, int64_t samples, std::array<uint32_t, 2>* scales = nullptr) {
  Stream s;
  Mp4Options o;
  o.width = kWidth, o.height = kHeight, o.crf = 5;
  LiveWriter w(o, kGroup, [&](std::string i) { EXPECT_TRUE(s.init.empty()); s.init = std::move(i); },
               [&](Fragment f) { EXPECT_FALSE(s.init.empty()); s.fragments.push_back(std::move(f)); });
  std::vector<float> tone(static_cast<size_t>(samples));
  for (size_t i = 0; i < tone.size(); ++i) tone[i] = 0.5f * std::sin(2 * 3.14159265f * 440 * static_cast<float>(i) / kRate);
  int64_t given = 0;
  for (int64_t f = 0; f < frames; ++f) {
    const std::vector<uint8_t> rgb(kWidth * kHeight * 3, static_cast<uint8_t>(16 + 2 * f));
    w.write_frames(rgb.data(), 1);
    const int64_t to = samples * (f + 1) / frames;
    const float* planes[2] = {tone.data() + given, tone.data() + given};
    w.write_audio(planes, to - given);
    given = to;
  }
  if (scales) *scales = w.timescales();
  return s;
}

std::string file_of(const std::string& bytes) {
  const std::string path = testing::TempDir() + "live_writer_test.mp4";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(LiveWriter, FragmentsFollowEachOtherWithTheirOwnSound) {
  std::array<uint32_t, 2> scales{};
  const Stream s = make(70, 70 * kRate / 24, &scales);
  ASSERT_EQ(s.fragments.size(), 4u);   // 68 frames; two wait for more
  EXPECT_EQ(s.init.substr(4, 4), "ftyp");
  for (size_t i = 0; i < s.fragments.size(); ++i) {
    const Fragment& f = s.fragments[i];
    EXPECT_EQ(f.bytes.substr(4, 4), "moof");
    EXPECT_EQ(f.first_frame, static_cast<int64_t>(i) * kGroup);
    EXPECT_EQ(static_cast<double>(f.start[0]) / scales[0], static_cast<double>(f.first_frame) / 24);
    ASSERT_TRUE(f.start_at[1]);
    EXPECT_NEAR(static_cast<double>(f.start[1]) / scales[1], static_cast<double>(f.first_frame) / 24, 0.065);   // the encoder's delay is one packet, a packet 32 ms
  }
  std::string all = s.init;
  for (const Fragment& f : s.fragments) all += f.bytes;
  const Clip clip = load_clip({file_of(all)});
  ASSERT_EQ(clip.frames.size(), 68u);
  for (size_t i = 0; i < clip.frames.size(); ++i) EXPECT_NEAR(clip.frames[i].rgb[0], 16 + 2 * static_cast<int>(i), 3) << i;
}

TEST(LiveWriter, AReaderMayJoinAtAnyFragment) {
  std::array<uint32_t, 2> scales{};
  const Stream s = make(70, 70 * kRate / 24, &scales);
  std::string late = s.init;
  for (size_t i = 2; i < s.fragments.size(); ++i) late += rebased(s.fragments[i], s.fragments[2], scales);
  const Clip clip = load_clip({file_of(late)});
  ASSERT_EQ(clip.frames.size(), 34u);
  EXPECT_NEAR(clip.frames[0].rgb[0], 16 + 2 * 34, 3);
  ASSERT_TRUE(clip.sound.has_value());
  EXPECT_NEAR(static_cast<double>(clip.sound->samples()) / kRate, 34.0 / 24, 0.1);
}

TEST(LiveWriter, AFragmentWaitsForItsSound) {
  EXPECT_TRUE(make(34, 1000).fragments.empty());
  EXPECT_EQ(make(34, 17 * kRate / 24 + 4096).fragments.size(), 1u);
}

TEST(LiveWriter, RefusesAbsurdSizes) {
  Mp4Options o;
  o.width = 63, o.height = 48;
  EXPECT_THROW(LiveWriter(o, kGroup, [](std::string) {}, [](Fragment) {}), Error);
}

}  // namespace
}  // namespace zt
