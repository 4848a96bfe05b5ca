#include "media/decode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/test_support.h"
#include "media/pixels.h"

namespace zt {
namespace {

const std::string kFixtures = ZT_SOURCE_DIR "/tests/fixtures/media/";

std::vector<uint8_t> slurp(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

// What PIL made of the picture, stored by make_fixtures.py.
Picture pil_view(const std::string& name) {
  const auto bytes = slurp(kFixtures + name + ".rgb");
  if (bytes.size() < 8) fail(ErrorKind::internal, "{}.rgb is missing", name);
  uint32_t size[2];
  std::memcpy(size, bytes.data(), 8);
  return {static_cast<int>(size[0]), static_cast<int>(size[1]), {bytes.begin() + 8, bytes.end()}};
}

// The largest difference of any sample; -1 if the sizes differ.
int largest_difference(const Picture& a, const Picture& b) {
  if (a.width != b.width || a.height != b.height || a.rgb.size() != b.rgb.size()) return -1;
  int worst = 0;
  for (size_t i = 0; i < a.rgb.size(); i++) worst = std::max(worst, std::abs(a.rgb[i] - b.rgb[i]));
  return worst;
}

// A file that lives as long as the test.
class TempFile {
 public:
  TempFile(const std::string& name, std::span<const uint8_t> bytes) : path_(testing::TempDir() + "zt_decode_" + name) {
    std::ofstream(path_, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<int64_t>(bytes.size()));
  }
  ~TempFile() { std::filesystem::remove(path_); }
  operator MediaSource() const { return path_; }

 private:
  std::string path_;
};

std::vector<uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

void put(std::vector<uint8_t>& out, uint32_t v, int n) {
  for (int i = 0; i < n; i++) out.push_back(static_cast<uint8_t>(v >> (8 * i)));
}

// A PCM WAV; `bits` 8, 16 or 32.
std::vector<uint8_t> wav(int rate, int channels, int bits, const std::vector<int32_t>& interleaved, int64_t lie = 0) {
  std::vector<uint8_t> out = bytes_of("RIFF");
  const uint32_t data = static_cast<uint32_t>(interleaved.size()) * static_cast<uint32_t>(bits / 8) + static_cast<uint32_t>(lie);
  put(out, 36 + data, 4);
  for (char c : std::string_view("WAVEfmt ")) out.push_back(static_cast<uint8_t>(c));
  put(out, 16, 4), put(out, 1, 2), put(out, static_cast<uint32_t>(channels), 2), put(out, static_cast<uint32_t>(rate), 4);
  put(out, static_cast<uint32_t>(rate * channels * bits / 8), 4), put(out, static_cast<uint32_t>(channels * bits / 8), 2);
  put(out, static_cast<uint32_t>(bits), 2);
  for (char c : std::string_view("data")) out.push_back(static_cast<uint8_t>(c));
  put(out, data, 4);
  for (int32_t v : interleaved) put(out, static_cast<uint32_t>(v), bits / 8);
  return out;
}

TEST(Decode, PicturesAreWhatPilSees) {
  for (const char* name :
       {"rgb.png",       "rgba.png",   "gray.png",       "gray_alpha.png",  "palette.png", "palette_alpha.png", "bits1.png",
        "one.png",       "rgb16.png",  "gray16.png",     "exif6.png",       "rgb.bmp",     "palette.bmp",       "palette.gif",
        "lossless.webp", "exif8.webp", "subsampled.jpg", "progressive.jpg", "gray.jpg",    "cmyk.jpg"})
    EXPECT_EQ(largest_difference(load_picture(kFixtures + name), pil_view(name)), 0) << name;
}

TEST(Decode, LossyWebPIsCloseToPil) {
  const int worst = largest_difference(load_picture(kFixtures + "lossy.webp"), pil_view("lossy.webp"));
  EXPECT_GE(worst, 0);
  EXPECT_LE(worst, 6);  // levels; the decoders differ in how they widen chroma
}

TEST(Decode, EveryExifOrientation) {
  for (int n = 1; n <= 8; n++) {
    const std::string name = "exif" + std::to_string(n) + ".jpg";
    EXPECT_EQ(largest_difference(load_picture(kFixtures + name), pil_view(name)), 0) << name;
    const MediaInfo info = probe(kFixtures + name);
    EXPECT_EQ(info.kind, MediaKind::image);
    EXPECT_EQ(info.width, n < 5 ? 40 : 28) << name;
    EXPECT_EQ(info.height, n < 5 ? 28 : 40) << name;
  }
}

TEST(Decode, HugePicturesAreRefusedBeforeTheyAreDecoded) {
  // A header alone: decoding would fail in another way, or take gigabytes.
  auto png = slurp(kFixtures + "rgb.png");
  const uint8_t side[] = {0x00, 0x00, 0x4E, 0x20};  // 20000
  std::copy(side, side + 4, png.begin() + 16), std::copy(side, side + 4, png.begin() + 20);
  expect_words(message([&] { load_picture({png, "huge.png"}); }), {"huge.png", "20000x20000", "16384", "smaller"});
  expect_words(message([&] { probe({png, "huge.png"}); }), {"20000x20000"});
  const uint8_t wide[] = {0x00, 0x00, 0x40, 0x00};  // 16384 x 16384 is above the sum
  std::copy(wide, wide + 4, png.begin() + 16), std::copy(wide, wide + 4, png.begin() + 20);
  expect_words(message([&] { load_picture({png, "wide.png"}); }), {"16384x16384", "200000000"});
  std::fill(png.begin() + 16, png.begin() + 20, 0);
  expect_words(message([&] { load_picture({png, "flat.png"}); }), {"0x16384"});
}

TEST(Decode, DamagedPicturesAreRefused) {
  for (const char* name : {"rgb.png", "exif1.jpg", "progressive.jpg", "rgb.bmp", "lossless.webp", "lossy.webp"}) {
    const auto whole = slurp(kFixtures + name);
    for (size_t part : {whole.size() / 2, whole.size() - 3}) {
      const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<int64_t>(part));
      expect_words(message([&] { load_picture({cut, name}); }), {name, "wanted"});
    }
  }
  auto png = slurp(kFixtures + "rgb.png");
  png[png.size() - 20] ^= 0x55;  // inside the compressed data
  expect_words(message([&] { load_picture({png, "broken.png"}); }), {"broken.png", "damaged"});
}

TEST(Decode, PngTextAndProfilesAreNotUnpacked) {
  auto png = slurp(kFixtures + "rgb.png");
  // An iCCP chunk after IHDR whose data no decoder could unpack and whose CRC is wrong.
  std::vector<uint8_t> chunk = {0, 0, 0, 6};
  for (char c : std::string_view("iCCPa\0\0zip????", 14)) chunk.push_back(static_cast<uint8_t>(c));
  png.insert(png.begin() + 33, chunk.begin(), chunk.end());
  EXPECT_EQ(largest_difference(load_picture({png, "profile.png"}), pil_view("rgb.png")), 0);
}

TEST(Decode, WhatIsNoPicture) {
  const TempFile text("text.png", bytes_of("this is a letter, not a picture\n"));
  expect_words(message([&] { load_picture(text); }), {"text.png", "found no picture", "PNG"});
  expect_words(message([&] { probe(text); }), {"text.png"});
  const TempFile empty("empty.png", {});
  expect_words(message([&] { load_picture(empty); }), {"empty.png", "0 bytes"});
  expect_words(message([] { load_picture("/nonexistent/a.png"); }), {"/nonexistent/a.png", "opened"});
  expect_words(message([] { load_picture(testing::TempDir()); }), {"folder"});
  expect_words(message([] { load_picture("/dev/zero"); }), {"device"});
  expect_words(message([] { load_picture(kFixtures + "silent.mkv"); }), {"found a video", "wanted a picture"});
  expect_words(message([] { load_clip(kFixtures + "rgb.png"); }), {"PNG picture", "wanted a video"});
  expect_words(message([] { load_sound(kFixtures + "rgb.png"); }), {"PNG picture", "wanted sound"});
}

// The frames of make_fixtures.py.
uint8_t fixture_sample(int frame, int x, int y, int c) {
  const int from = ((x - frame) % 16 + 16) % 16;
  const int v[3] = {from * 13, y * 19, (from + y) * 8};
  return static_cast<uint8_t>(v[c]);
}

void expect_fixture_frames(const Clip& clip, size_t count) {
  ASSERT_EQ(clip.frames.size(), count);
  for (size_t i = 0; i < count; i++) {
    ASSERT_EQ(clip.frames[i].width, 16);
    ASSERT_EQ(clip.frames[i].height, 12);
    for (int y = 0; y < 12; y++)
      for (int x = 0; x < 16; x++)
        for (int c = 0; c < 3; c++)
          ASSERT_EQ(clip.frames[i].rgb[static_cast<size_t>((y * 16 + x) * 3 + c)], fixture_sample(static_cast<int>(i), x, y, c)) << i;
  }
}

TEST(Decode, LosslessVideoIsExact) {
  const Clip clip = load_clip(kFixtures + "silent.mkv");
  EXPECT_DOUBLE_EQ(clip.fps, 10);
  EXPECT_FALSE(clip.sound.has_value());
  expect_fixture_frames(clip, 10);
  const MediaInfo info = probe(kFixtures + "silent.mkv");
  EXPECT_EQ(info.kind, MediaKind::video);
  EXPECT_EQ(info.width, 16);
  EXPECT_EQ(info.height, 12);
  EXPECT_DOUBLE_EQ(info.fps, 10);
  EXPECT_EQ(info.frames, 10);
  EXPECT_FALSE(info.has_sound);
  expect_words(message([] { load_sound(kFixtures + "silent.mkv"); }), {"silent.mkv", "without sound"});
}

TEST(Decode, SoundtrackSamplesAreExact) {
  const Clip clip = load_clip(kFixtures + "sound.mkv");
  expect_fixture_frames(clip, 10);
  ASSERT_TRUE(clip.sound.has_value());
  ASSERT_EQ(clip.sound->sample_rate, 32000);
  ASSERT_EQ(clip.sound->channels.size(), 2u);
  ASSERT_EQ(clip.sound->samples(), 8000);
  for (int64_t i = 0; i < 8000; i++) {
    ASSERT_EQ(clip.sound->channels[0][static_cast<size_t>(i)], static_cast<float>(i * 7 % 65536 - 32768) / 32768) << i;
    ASSERT_EQ(clip.sound->channels[1][static_cast<size_t>(i)], static_cast<float>(i * 13 % 65536 - 32768) / 32768) << i;
  }
  const MediaInfo info = probe(kFixtures + "sound.mkv");
  EXPECT_TRUE(info.has_sound);
  EXPECT_EQ(info.sample_rate, 32000);
  EXPECT_EQ(info.channels, 2);
}

TEST(Decode, RotationIsApplied) {
  // Stored 16 x 12, to be shown turned left: 12 x 16, and the stored top right corner comes to the top left.
  const Clip clip = load_clip(kFixtures + "rotated.mp4");
  ASSERT_EQ(clip.frames.size(), 10u);
  ASSERT_EQ(clip.frames[0].width, 12);
  ASSERT_EQ(clip.frames[0].height, 16);
  for (int y = 0; y < 16; y++)
    for (int x = 0; x < 12; x++)
      for (int c = 0; c < 3; c++)
        ASSERT_EQ(clip.frames[3].rgb[static_cast<size_t>((y * 12 + x) * 3 + c)], fixture_sample(3, 15 - y, x, c)) << x << "," << y;
  const MediaInfo info = probe(kFixtures + "rotated.mp4");
  EXPECT_EQ(info.width, 12);
  EXPECT_EQ(info.height, 16);
}

TEST(Decode, DisplayMatrixIsOneOfEightOrientations) {
  const int matrices[8][4] = {{1, 0, 0, 1}, {-1, 0, 0, 1}, {-1, 0, 0, -1}, {1, 0, 0, -1},
                              {0, 1, 1, 0}, {0, 1, -1, 0}, {0, -1, -1, 0}, {0, -1, 1, 0}};
  for (int i = 0; i < 8; i++) {
    const auto& m = matrices[i];
    const int32_t matrix[9] = {m[0] * 65536, m[1] * 65536, 0, m[2] * 65536, m[3] * 65536, 0, 0, 0, 1 << 30};
    EXPECT_EQ(matrix_orientation(matrix), i + 1);
  }
  const int32_t nothing[9] = {};
  EXPECT_EQ(matrix_orientation(nothing), 1);
}

TEST(Decode, LimitsStopEarly) {
  MediaLimits limits;
  limits.max_seconds = 0.4;
  const Clip clip = load_clip(kFixtures + "sound.mkv", limits);
  EXPECT_EQ(clip.frames.size(), 4u);
  EXPECT_LE(clip.sound->samples(), 12800);
  limits.max_seconds = 0.1;
  EXPECT_EQ(load_sound(kFixtures + "sound.mkv", limits).samples(), 3200);
  limits.max_seconds = 16, limits.max_bytes = 2000;
  expect_words(message([&] { load_clip(kFixtures + "silent.mkv", limits); }), {"2000 bytes", "16x12"});
  limits.max_bytes = 1 << 20, limits.max_side = 14;
  expect_words(message([&] { load_clip(kFixtures + "silent.mkv", limits); }), {"16x12", "14"});
}

TEST(Decode, FitIsAppliedToEachFrame) {
  MediaLimits limits;
  int calls = 0;
  limits.fit = [&](Picture p) {
    calls++;
    p.height = 1, p.rgb.resize(static_cast<size_t>(p.width) * 3);
    return p;
  };
  const Clip clip = load_clip(kFixtures + "silent.mkv", limits);
  EXPECT_EQ(calls, 10);
  EXPECT_EQ(clip.frames[9].height, 1);
}

TEST(Decode, WavOfEveryDepth) {
  const std::vector<int32_t> values = {-32768, -1, 0, 1, 12345, 32767};
  const Sound s16 = load_sound({wav(44100, 1, 16, values), "a.wav"});
  EXPECT_EQ(s16.sample_rate, 44100);
  ASSERT_EQ(s16.channels.size(), 1u);
  ASSERT_EQ(s16.samples(), 6);
  for (size_t i = 0; i < values.size(); i++) EXPECT_EQ(s16.channels[0][i], static_cast<float>(values[i]) / 32768);
  const Sound u8 = load_sound({wav(8000, 2, 8, {0, 128, 255, 64}), "b.wav"});
  ASSERT_EQ(u8.channels.size(), 2u);
  EXPECT_EQ(u8.channels[0], (std::vector<float>{-1.f, 127.f / 128}));
  EXPECT_EQ(u8.channels[1], (std::vector<float>{0.f, -0.5f}));
  const Sound s32 = load_sound({wav(48000, 1, 32, {INT32_MIN, 1 << 30}), "c.wav"});
  EXPECT_EQ(s32.channels[0], (std::vector<float>{-1.f, 0.5f}));
  const Sound six = load_sound({wav(48000, 6, 16, std::vector<int32_t>(600, 8192)), "d.wav"});
  ASSERT_EQ(six.channels.size(), 2u);
  EXPECT_EQ(six.samples(), 100);
  EXPECT_EQ(six.channels[0], six.channels[1]);
}

TEST(Decode, SoundWithoutEnoughIsRefused) {
  expect_words(message([] { load_sound({wav(44100, 1, 16, {}), "none.wav"}); }), {"none.wav", "wanted"});
  expect_words(message([] { load_clip({wav(44100, 1, 16, std::vector<int32_t>(500, 1)), "a.wav"}); }), {"a.wav", "without video"});
  const auto mkv = slurp(kFixtures + "sound.mkv");
  const std::vector<uint8_t> head(mkv.begin(), mkv.begin() + 300);
  expect_words(message([&] { load_clip({head, "head.mkv"}); }), {"head.mkv", "wanted"});
}

TEST(Decode, TruncatedMp4IsRefused) {
  const auto whole = slurp(kFixtures + "rotated.mp4");
  for (size_t part : {whole.size() / 3, whole.size() * 2 / 3}) {  // its index stands at the end: gone
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<int64_t>(part));
    expect_words(message([&] { load_clip({cut, "cut.mp4"}); }), {"cut.mp4", "wanted"});
  }
}

TEST(Decode, AFileCutShortSaysSo) {
  const auto mkv = slurp(kFixtures + "silent.mkv");
  const std::vector<uint8_t> half(mkv.begin(), mkv.begin() + static_cast<int64_t>(mkv.size() * 6 / 10));
  expect_words(message([&] { load_clip({half, "half.mkv"}); }), {"half.mkv", "cut short"});
  // A WAV is what it holds: programs that stream one cannot go back to correct its header.
  const auto sound = wav(8000, 1, 16, std::vector<int32_t>(8000, 5), 16000);
  EXPECT_EQ(load_sound({sound, "streamed.wav"}).samples(), 8000);
}

TEST(Decode, PlaylistsOpenNothing) {
  for (const char* text :
       {"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n/etc/passwd\n#EXT-X-ENDLIST\n", "ffconcat version 1.0\nfile /etc/passwd\n",
        "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\"></MPD>", "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\n"}) {
    const auto bytes = bytes_of(text);
    expect_words(message([&] { probe({bytes, "list"}); }), {"list", "found no picture, video or sound"});
  }
}

TEST(Decode, AnyCutOfAnyFixtureIsAnErrorOrAPicture) {
  MediaLimits limits;
  limits.threads = 1;
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures)) {
    const auto whole = slurp(entry.path());
    if (whole.size() > 6000 || entry.path().extension() == ".rgb" || entry.path().extension() == ".py") continue;
    for (size_t n = 1; n < whole.size(); n += 1 + whole.size() / 23) {
      std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<int64_t>(n));
      for (int flip = 0; flip < 2; flip++) {
        if (flip) cut = whole, cut[n] ^= 0xFF;
        for (int what = 0; what < 4; what++) try {
            const MediaSource source(cut, "cut");
            if (what == 0) probe(source, limits);
            if (what == 1) load_picture(source, limits);
            if (what == 2) load_clip(source, limits);
            if (what == 3) load_sound(source, limits);
          } catch (const Error& e) { EXPECT_EQ(e.kind, ErrorKind::request) << entry.path() << " at " << n << ": " << e.what(); }
      }
    }
  }
}

}  // namespace
}  // namespace zt
