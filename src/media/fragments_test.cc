#include "media/fragments.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/test_support.h"
#include "media/decode.h"
#include "media/mp4_writer.h"

namespace zt {
namespace {

namespace fs = std::filesystem;

// A clip of 100 frames with a cut after 30, its stream beside it.
class Fragments : public testing::Test {
 protected:
  void SetUp() override {
    Mp4Options o{.width = 64, .height = 48};
    o.stream_path = file("stream.mp4");
    Mp4Writer writer(file("clip.mp4"), o);
    std::vector<float> sound(133600);
    for (size_t i = 0; i < sound.size(); ++i) sound[i] = 0.3f * std::sin(0.1f * static_cast<float>(i));
    const float* planes[2] = {sound.data(), sound.data()};
    writer.write_audio(planes, 133600);
    for (int t = 0; t < 100; ++t) writer.write_frames(frame(t).data(), 1);
    writer.finish();
    std::ifstream f(file("stream.mp4"), std::ios::binary);
    stream_ = {std::istreambuf_iterator<char>(f), {}};
  }
  static std::vector<uint8_t> frame(int t) {
    std::vector<uint8_t> rgb(64 * 48 * 3);
    for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(t < 30 ? i / 40 + static_cast<size_t>(t) : 255 - (i * 7 + static_cast<size_t>(t)) % 200);
    return rgb;
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  FragmentIndex index_of(const std::string& bytes) const {
    const std::string path = file("part.mp4");
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const FragmentIndex index = index_fragments(fd);
    close(fd);
    return index;
  }

  const TestFolder folder_;
  std::string stream_;
};

TEST_F(Fragments, AreFoundWithTheirLengthsAndKeyframes) {
  const FragmentIndex index = index_of(stream_);
  ASSERT_GT(index.init_bytes, 0u);
  ASSERT_GE(index.spans.size(), 9u);   // 100 frames of at most 12 each
  double seconds = 0, cut = 0;
  uint64_t at = index.init_bytes;
  for (const FragmentSpan& s : index.spans) {
    EXPECT_EQ(s.offset, at);
    EXPECT_EQ(stream_.substr(s.offset + 4, 4), "moof");
    EXPECT_LE(s.seconds, 0.5 + 1e-9);
    if (s.independent && seconds > 0 && cut == 0) cut = seconds;
    at += s.bytes, seconds += s.seconds;
  }
  EXPECT_TRUE(index.spans.front().independent);
  EXPECT_NEAR(seconds, 100.0 / 24, 1e-9);
  EXPECT_NEAR(cut, 30.0 / 24, 1e-9);   // x264 sees the cut; a fragment begins there
}

TEST_F(Fragments, OfAGrowingFileAreTheWholeOnes) {
  const FragmentIndex all = index_of(stream_);
  for (size_t n = 0; n < stream_.size(); n += 797) {
    const FragmentIndex some = index_of(stream_.substr(0, n));
    EXPECT_EQ(some.init_bytes, n >= all.init_bytes ? all.init_bytes : 0);
    size_t whole = 0;
    while (whole < all.spans.size() && all.spans[whole].offset + all.spans[whole].bytes <= n) ++whole;
    ASSERT_EQ(some.spans.size(), whole) << n;
  }
}

TEST_F(Fragments, AnyBytesAreTaken) {
  EXPECT_EQ(index_of("").init_bytes, 0u);
  EXPECT_EQ(index_of(std::string(5000, '\0')).init_bytes, 0u);
  uint32_t x = 1;
  for (int round = 0; round < 400; ++round) {   // damage in the headers, where lengths are
    std::string bytes = stream_;
    for (int k = 0; k < 4; ++k) {
      x = x * 1664525u + 1013904223u;
      bytes[(x >> 8) % 2000] = static_cast<char>(x >> 24);
    }
    const FragmentIndex index = index_of(bytes);
    for (const FragmentSpan& s : index.spans) EXPECT_LE(s.offset + s.bytes, bytes.size());
  }
}

TEST_F(Fragments, OfAFinishedFileHoldTheSamePictures) {
  write_fragments(file("clip.mp4"), file("again.mp4"));
  const Clip a = load_clip(file("clip.mp4")), b = load_clip(file("again.mp4"));
  ASSERT_EQ(a.frames.size(), 100u);
  ASSERT_EQ(b.frames.size(), 100u);
  for (size_t t = 0; t < 100; ++t) ASSERT_EQ(a.frames[t].rgb, b.frames[t].rgb) << t;
  std::ifstream f(file("again.mp4"), std::ios::binary);
  const FragmentIndex index = index_of({std::istreambuf_iterator<char>(f), {}}), first = index_of(stream_);
  ASSERT_EQ(index.spans.size(), first.spans.size());
  for (size_t i = 0; i < index.spans.size(); ++i) EXPECT_NEAR(index.spans[i].seconds, first.spans[i].seconds, 1e-9);
  EXPECT_THROW(write_fragments(file("none.mp4"), file("again.mp4")), Error);
  EXPECT_THROW(write_fragments(file("clip.mp4"), file("none/again.mp4")), Error);
}

}  // namespace
}  // namespace zt
