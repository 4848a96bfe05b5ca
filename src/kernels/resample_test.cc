#include "kernels/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"

namespace zt {
namespace {

// The inputs of tests/fixtures/resample/make_fixtures.py.
Picture pattern(int w, int h, int64_t k) {
  Picture p;
  p.width = w, p.height = h;
  for (int64_t y = 0; y < h; y++)
    for (int64_t x = 0; x < w; x++) {
      if (k >= 100) {
        const int64_t v = (x * 1103515245 + y * 12345 + (x * y + k) * 2654435761) & 0xFFFFFFFF;
        p.rgb.push_back(static_cast<uint8_t>(v >> 8));
        p.rgb.push_back(static_cast<uint8_t>(v >> 16));
        p.rgb.push_back(static_cast<uint8_t>(((v >> 23) & 1) * 255));
        continue;
      }
      p.rgb.push_back(static_cast<uint8_t>((x * 255 / std::max(w - 1, 1) + k * 37) % 256));
      p.rgb.push_back(static_cast<uint8_t>((y * 255 / std::max(h - 1, 1) + k * 61) % 256));
      p.rgb.push_back(static_cast<uint8_t>(((x * (3 + k) + y * (5 + k)) / 2 + 64 * (((x / 8) + (y / 8)) % 2) + k * 13) % 256));
    }
  return p;
}

Sound noise(int64_t n, int channels, int64_t k, int rate) {
  Sound s;
  s.sample_rate = rate;
  for (int c = 0; c < channels; c++) {
    s.channels.emplace_back();
    for (int64_t i = 0; i < n; i++)
      s.channels.back().push_back(static_cast<float>(((i * 1103515245 + 12345 + 977 * c + k) >> 8) % 65536 - 32768) / 32768);
  }
  return s;
}

class Fixture {
 public:
  Fixture() {
    std::ifstream f(ZT_SOURCE_DIR "/tests/fixtures/resample/resample.bin", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(f), {});
  }
  bool more() const { return at_ < bytes_.size(); }
  int u32() {
    uint32_t v = 0;
    std::memcpy(&v, take(4), 4);
    return static_cast<int>(v);
  }
  const char* take(size_t n) {
    if (n > bytes_.size() - at_) fail(ErrorKind::internal, "resample.bin: cut short at byte {}", at_);
    return bytes_.data() + std::exchange(at_, at_ + n);
  }

 private:
  std::vector<char> bytes_;
  size_t at_ = 0;
};

void check_picture(Fixture& f, bool lanczos) {
  const int w = f.u32(), h = f.u32(), k = f.u32(), ow = f.u32(), oh = f.u32();
  const size_t n = static_cast<size_t>(ow) * static_cast<size_t>(oh) * 3;
  const auto* want = reinterpret_cast<const uint8_t*>(f.take(n));
  const Picture in = pattern(w, h, k);
  const Picture got = lanczos ? resize_lanczos(in, ow, oh) : resize_bicubic(in, ow, oh);
  ASSERT_EQ(got.width, ow);
  ASSERT_EQ(got.height, oh);
  ASSERT_EQ(got.rgb.size(), n);
  size_t wrong = 0;
  for (size_t i = 0; i < n; i++) wrong += got.rgb[i] != want[i];
  EXPECT_EQ(wrong, 0u) << (lanczos ? "lanczos " : "bicubic ") << w << "x" << h << " pattern " << k << " to " << ow << "x" << oh;
}

// The bank is equal to the bit but for the last place of cos and sin; the reference sums at most 15 to 80 products in float32.
void check_sound(Fixture& f) {
  const int n = f.u32(), channels = f.u32(), k = f.u32(), from = f.u32(), to = f.u32(), samples = f.u32();
  const Sound got = resample(noise(n, channels, k, from), to);
  ASSERT_EQ(got.sample_rate, to);
  ASSERT_EQ(got.channels.size(), static_cast<size_t>(channels));
  ASSERT_EQ(got.samples(), samples) << n << " samples " << from << " to " << to;
  for (const auto& channel : got.channels)
    for (float have : channel) {
      float want = 0;
      std::memcpy(&want, f.take(4), 4);
      ASSERT_NEAR(have, want, 2e-6) << n << " samples " << from << " to " << to;
    }
}

TEST(Resample, EqualsPillowTorchvisionAndTorchaudio) {
  Fixture f;
  int seen[3] = {};
  while (f.more()) {
    const int kind = f.u32();
    ASSERT_GE(kind, 0);
    ASSERT_LE(kind, 2);
    seen[kind]++;
    if (kind == 2) check_sound(f);
    else check_picture(f, kind == 0);
  }
  EXPECT_EQ(seen[0], 20);
  EXPECT_EQ(seen[1], 20);
  EXPECT_EQ(seen[2], 12);
}

TEST(Resample, ConstantStaysConstant) {
  Picture p;
  p.width = 37, p.height = 23;
  p.rgb.assign(37 * 23 * 3, 201);
  for (const auto& q : {resize_lanczos(p, 64, 5), resize_bicubic(p, 64, 5), resize_lanczos(p, 3, 90), resize_bicubic(p, 3, 90)})
    for (uint8_t v : q.rgb) ASSERT_EQ(v, 201);
}

TEST(Resample, SameSizeIsTheSamePicture) {
  const Picture p = pattern(19, 8, 100);
  EXPECT_EQ(resize_lanczos(p, 19, 8).rgb, p.rgb);
  EXPECT_EQ(resize_bicubic(p, 19, 8).rgb, p.rgb);
}

TEST(Resample, CropTakesTheBox) {
  const Picture p = pattern(9, 7, 101);
  const Picture q = crop(p, 2, 3, 4, 2);
  ASSERT_EQ(q.rgb.size(), 4u * 2 * 3);
  for (size_t y = 0; y < 2; y++)
    for (size_t x = 0; x < 12; x++) EXPECT_EQ(q.rgb[y * 12 + x], p.rgb[(y + 3) * 27 + 6 + x]);
  EXPECT_THROW(crop(p, 6, 0, 4, 2), Error);
  EXPECT_THROW(crop(p, 0, 0, 0, 2), Error);
  EXPECT_THROW(crop(p, -1, 0, 2, 2), Error);
}

TEST(Resample, RefusesEmptySizes) {
  EXPECT_THROW(resize_lanczos(Picture{}, 4, 4), Error);
  EXPECT_THROW(resize_bicubic(pattern(4, 4, 1), 0, 4), Error);
  Sound s;
  EXPECT_THROW(resample(s, 32000), Error);
}

TEST(Resample, SoundKeepsItsPitchAndInstant) {
  // A click in the middle must stay in the middle: second 0.5 at both rates.
  Sound s;
  s.sample_rate = 44100;
  s.channels.assign(1, std::vector<float>(44100, 0.f));
  s.channels[0][22050] = 1.f;
  const Sound r = resample(s, 32000);
  ASSERT_EQ(r.samples(), 32000);
  size_t peak = 0;
  for (size_t i = 0; i < r.channels[0].size(); i++)
    if (r.channels[0][i] > r.channels[0][peak]) peak = i;
  EXPECT_EQ(peak, 16000u);
}

TEST(Resample, RatesWithoutCommonDivisorNeedLittleMemory) {
  const Sound r = resample(noise(100000, 1, 1, 767999), 32000);
  EXPECT_EQ(r.samples(), 4167);
}

}  // namespace
}  // namespace zt
