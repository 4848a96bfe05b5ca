// What is kept across requests is bounded, and no byte of a clip tells whether it was there.
#include "pipeline/caches.h"

#include <gtest/gtest.h>

#include <cmath>

#include "pipeline/test_support.h"

namespace zt {
namespace {

Tensor filled(int64_t count, float value) {
  Tensor t({count});
  std::fill_n(t.data(), count, value);
  return t;
}

TEST(Caches, KeepTheLatestWithinTheirBytes) {
  Caches caches;
  int made = 0;
  auto get = [&](const std::string& key, int64_t count = 10) {
    return caches.get(CacheKind::prompt, key, [&] { return ++made, filled(count, static_cast<float>(key[0])); }).data()[count - 1];
  };
  get("a"), get("a");
  EXPECT_EQ(made, 2) << "nothing is kept without a limit";
  caches.limit(100);   // two of 40 bytes
  get("a"), get("b"), get("a");
  EXPECT_EQ(made, 4);
  EXPECT_EQ(get("c"), 'c');   // b goes, it was used longest ago
  EXPECT_EQ(get("a"), 'a');
  EXPECT_EQ(made, 5);
  get("b");
  EXPECT_EQ(made, 6);
  get("x", 26), get("x", 26);   // larger than the whole
  EXPECT_EQ(made, 8);
  EXPECT_EQ(caches.stats()[0].bytes, 80);
  EXPECT_EQ(caches.stats()[0].hits, 2);
  EXPECT_EQ(caches.stats()[0].misses, 8);
  EXPECT_EQ(caches.get(CacheKind::condition, "a", [] { return filled(1, 7); }).count(), 1) << "kinds do not share names";
  EXPECT_THROW(caches.get(CacheKind::prompt, "z", []() -> Tensor { throw Cancelled(); }), Cancelled);
  EXPECT_EQ(get("z"), 'z');
  caches.limit(0);
  EXPECT_EQ(caches.stats()[0].bytes + caches.stats()[1].bytes, 0);
}

Picture picture(uint8_t grey) {
  Picture p{64, 64, std::vector<uint8_t>(64 * 64 * 3)};
  for (size_t i = 0; i < p.rgb.size(); ++i) p.rgb[i] = static_cast<uint8_t>(grey + i % 97);
  return p;
}

Sound tone(float height) {
  Sound s{32000, {std::vector<float>(32000)}};
  for (size_t i = 0; i < s.channels[0].size(); ++i) s.channels[0][i] = 0.5f * std::sin(static_cast<float>(i) * height);
  return s;
}

std::vector<float> made(Engine& engine, const std::string& prompt, int grey, float height) {
  Request r = small_request(engine, prompt, 32, 124);
  if (height > 0) {
    r.task = Task::ref2va;
    r.references.push_back({picture(static_cast<uint8_t>(grey))});
    r.references.push_back({tone(height)});
  } else {
    r.task = Task::fl2va;
    r.first_frame = picture(static_cast<uint8_t>(grey));
  }
  return clip_of(engine, r);
}

TEST(Caches, ChangeNoByteOfAClip) {
  const std::string model = std::string(ZT_SOURCE_DIR) + "/tests/golden/a/model";
  Engine plain(model, fast_plan(), 2), caching(model, fast_plan(), 2);
  caching.caches().limit(int64_t{64} << 20);
  struct Case {
    const char* prompt;
    int grey;
    float height;
  };
  // Each differs from the one before it in one thing, then all come again.
  const Case cases[] = {{"a red circle", 10, 0}, {"a red circle", 90, 0}, {"a blue circle", 90, 0}, {"a red circle", 10, 0.1f}, {"a red circle", 10, 0.2f}};
  for (int round = 0; round < 2; ++round)
    for (const Case& c : cases) EXPECT_EQ(made(caching, c.prompt, c.grey, c.height), made(plain, c.prompt, c.grey, c.height)) << c.prompt << c.grey << c.height << round;
  const auto with = caching.caches().stats(), without = plain.caches().stats();
  EXPECT_EQ(with[0].hits, 6);         // the sound is no part of the text encoder's input
  EXPECT_EQ(with[0].misses, 4);
  EXPECT_GE(with[1].hits, 5);
  EXPECT_GT(with[1].bytes, 0);
  EXPECT_GT(with[2].hits, with[2].misses);   // noise levels are the denoiser's own, with and without
  EXPECT_EQ(without[0].hits + without[0].misses + without[0].bytes + without[1].hits + without[1].bytes, 0);
}

}  // namespace
}  // namespace zt
