#include "models/minimax_h3/audio_vae.h"

#include <malloc.h>

#include <algorithm>
#include <random>

#include "models/minimax_h3/golden_fixture.h"

namespace zt::h3 {
namespace {

constexpr double kTolerance = 1e-5;

const AudioVae& golden_vae(const std::string& golden_case = "a") {
  static const auto a = load_audio_vae(select_ops(), golden_path("model/audio_vae"), true);
  static const auto b = load_audio_vae(select_ops(), golden_path("model/audio_vae", "b"), true);
  return golden_case == "a" ? *a : *b;
}

class AudioVaeGolden : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Cases, AudioVaeGolden, testing::Values("a", "b"));

std::vector<std::vector<float>> drain(const Ctx& ctx, SoundStream& stream) {
  std::vector<std::vector<float>> channels;
  SoundChunk chunk;
  int64_t expected = 0;
  while (stream.next(ctx, chunk)) {
    EXPECT_EQ(chunk.first_sample, expected);
    EXPECT_GT(chunk.count, 0);
    expected += chunk.count;
    channels.resize(chunk.channels.size());
    for (size_t i = 0; i < channels.size(); ++i) channels[i].insert(channels[i].end(), chunk.channels[i], chunk.channels[i] + chunk.count);
  }
  return channels;
}

std::vector<float> joined(const std::vector<std::vector<float>>& channels) {
  std::vector<float> all;
  for (const auto& c : channels) all.insert(all.end(), c.begin(), c.end());
  return all;
}

Tensor noise(Shape shape, unsigned seed) {
  Tensor t(std::move(shape));
  std::mt19937 g(seed);
  std::normal_distribution<float> d;
  for (int64_t i = 0; i < t.count(); ++i) t.data()[i] = d(g);
  return t;
}

// make_golden.py's test_audio(n, channels, k) / 32768.
Sound test_audio(int64_t n, int channels, int64_t k) {
  Sound s{32000, {}};
  for (int64_t c = 0; c < channels; ++c) {
    const int64_t p1 = 97 + 13 * k + 7 * c, p2 = 31 + 5 * k + 3 * c;
    auto& out = s.channels.emplace_back();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t triangles = std::abs((i * 400 / p1) % 400 - 200) * 40 - 4000 + std::abs((i * 400 / p2) % 400 - 200) * 20 - 2000;
      const int64_t lcg = ((i * 1103515245 + 12345 + 977 * c) >> 8) % 1024 - 512;
      out.push_back(static_cast<float>(std::clamp<int64_t>(triangles + lcg, -32768, 32767)) / 32768.0f);
    }
  }
  return s;
}

TEST_P(AudioVaeGolden, Decodes) {
  Golden golden(GetParam());
  Bench b;
  auto stream = golden_vae(GetParam()).decode_pieces(golden.tensor("unit.audio_decode6.in", false), 64, false);
  EXPECT_LT(relative_l2(joined(drain(b.ctx, *stream)), golden.floats("unit.audio_decode6.out")), kTolerance);
}

TEST_P(AudioVaeGolden, DecodesTheLatentsOfEveryRun) {
  Golden golden(GetParam());
  Bench b;
  for (const std::string& name : golden.runs(".audio_latents")) {
    Tensor latents = golden.tensor(name + ".audio_latents", false);
    const int64_t samples = latents.dim(2) * 800;
    auto stream = golden_vae(GetParam()).decode(std::move(latents));
    const auto sound = drain(b.ctx, *stream);
    ASSERT_EQ(sound.size(), 2u);
    std::vector<float> head, tail;
    for (const auto& c : sound) {
      ASSERT_EQ(c.size(), static_cast<size_t>(samples));
      head.insert(head.end(), c.begin(), c.begin() + 2400);
      tail.insert(tail.end(), c.end() - 2400, c.end());
    }
    EXPECT_LT(relative_l2(head, golden.floats(name + ".audio_f32_head")), kTolerance) << name;
    EXPECT_LT(relative_l2(tail, golden.floats(name + ".audio_f32_tail")), kTolerance) << name;
  }
}

TEST_P(AudioVaeGolden, Encodes) {
  Golden golden(GetParam());
  Bench b;
  const Tensor means = golden_vae(GetParam()).encode(b.ctx, test_audio(2001, 2, 6));
  EXPECT_EQ(means.shape(), (Shape{2, 32, 3}));
  EXPECT_LT(relative_l2(to_vector(means), golden.floats("unit.audio_encode2001.mean")), kTolerance);
}

// However the latents are cut into pieces, the samples are those of one piece: no row is computed from other rows or in another order.
TEST(AudioVae, PiecesGiveTheWhole) {
  Bench b;
  for (int64_t latents : {1, 3, 29, 65, 100}) {
    auto whole = golden_vae().decode_pieces(noise({2, 32, latents}, 4), latents, true);
    const auto wanted = joined(drain(b.ctx, *whole));
    ASSERT_EQ(wanted.size(), static_cast<size_t>(2 * latents * 800));
    double scale = 0;
    for (float v : wanted) scale = std::max(scale, std::fabs(static_cast<double>(v)));
    for (int64_t piece : {3, 40, 64}) {
      auto pieces = golden_vae().decode_pieces(noise({2, 32, latents}, 4), piece, true);
      const auto found = joined(drain(b.ctx, *pieces));
      ASSERT_EQ(found.size(), wanted.size());
      double worst = 0;
      for (size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::fabs(static_cast<double>(found[i]) - wanted[i]));
      EXPECT_LE(worst, 1e-6 * scale) << latents << " latents by " << piece;
    }
  }
}

TEST(AudioVae, SamplesOfLegalLengths) {
  Bench b;
  for (int64_t n : {0, 1, 2, 7, 21}) {
    const int64_t latents = std::lround(static_cast<double>(17 * n + 5) * 40 / 24);
    auto stream = golden_vae().decode(noise({2, 32, latents}, 4));
    const auto sound = drain(b.ctx, *stream);
    for (const auto& c : sound) {
      EXPECT_EQ(c.size(), static_cast<size_t>(latents * 800));
      EXPECT_TRUE(std::all_of(c.begin(), c.end(), [](float v) { return v >= -1 && v <= 1; }));
    }
  }
}

TEST(AudioVae, BuffersDoNotGrowWithTheLength) {
  auto run = [](int64_t latents) {
    Bench b;
    auto stream = golden_vae().decode(noise({2, 32, latents}, 3));
    SoundChunk chunk;
    std::vector<size_t> heap;
    while (stream->next(b.ctx, chunk)) heap.push_back(mallinfo2().uordblks + mallinfo2().hblkhd);
    EXPECT_EQ(heap.size(), static_cast<size_t>(latents / 64));
    // The last chunk is longer: it has nothing to look ahead to. The others settle with the third.
    EXPECT_LE(heap[heap.size() - 2], heap[2] + 4096);
    return b.arena.peak_bytes();
  };
  EXPECT_EQ(run(6 * 64), run(12 * 64));   // whole pieces, so that the last one is as long as the others
}

TEST(AudioVae, StopsWhenCancelled) {
  Bench b;
  auto stream = golden_vae().decode(noise({2, 32, 200}, 3));
  SoundChunk chunk;
  ASSERT_TRUE(stream->next(b.ctx, chunk));
  b.cancel = true;
  EXPECT_THROW(stream->next(b.ctx, chunk), Cancelled);
  b.cancel = false;
  EXPECT_THROW(stream->next(b.ctx, chunk), Error);   // a stream that was cut short is over
  b.cancel = true;
  EXPECT_THROW(golden_vae().encode(b.ctx, test_audio(1600, 1, 1)), Cancelled);
}

TEST(AudioVae, RefusesBadRequests) {
  Bench b;
  auto refuse = [&](const Sound& s) {
    try {
      golden_vae().encode(b.ctx, s);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::request) << e.what();
      return;
    }
    ADD_FAILURE() << "no error";
  };
  refuse(Sound{32000, {}});
  refuse(Sound{32000, {{}, {}}});
  refuse(Sound{44100, {{0.5f}}});
  refuse(Sound{32000, {{0.5f}, {0.5f, 1}}});
}

TEST(AudioVaeConfig, NamesTheKeyThatIsWrong) {
  const std::string path = golden_path("model/audio_vae/config.json");
  const Json good = read_json(path);
  EXPECT_EQ(parse_audio_vae_config({good, path}).hop(), 800);
  for (const auto& [key, value] : good.items()) {
    if (key.starts_with("_")) continue;
    for (const Json& bad : {Json(-1), Json(1e30), Json("x"), Json(nullptr), Json::array(), Json::array({1e40}), Json::array({-3, 2})}) {
      Json config = good;
      config[key] = bad;
      try {
        parse_audio_vae_config({config, path});
        ADD_FAILURE() << key << " = " << bad << " was taken";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind, ErrorKind::model);
        EXPECT_NE(std::string(e.what()).find(key), std::string::npos) << e.what();
      }
    }
  }
}

}  // namespace
}  // namespace zt::h3
