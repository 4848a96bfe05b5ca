#include "models/minimax_h3/video_vae.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "models/minimax_h3/golden_fixture.h"

namespace zt::h3 {
namespace {

// float32 sums in another order than PyTorch's move these tiny networks by about 1e-6; the gate is 1e-4.
constexpr double kTolerance = 1e-5;

const VideoVae& golden_vae(const std::string& golden_case = "a") {
  static const auto a = load_video_vae(select_ops(), golden_path("model/vae"), Compute::f32, true);
  static const auto b = load_video_vae(select_ops(), golden_path("model/vae", "b"), Compute::f32, true);
  return golden_case == "a" ? *a : *b;
}

// Two checkpoints of different dims, so that no dimension of one can stand in the code.
class VideoVaeGolden : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Cases, VideoVaeGolden, testing::Values("a", "b"));

// All frames of a stream, and what each chunk said.
struct Decoded {
  std::vector<float> frames;   // [count, 3, height, width]
  std::vector<int64_t> counts;
  int height = 0, width = 0;
};
Decoded drain(const Ctx& ctx, FrameStream& stream) {
  Decoded d;
  FrameChunk chunk;
  int64_t expected = 0;
  while (stream.next(ctx, chunk)) {
    EXPECT_EQ(chunk.first_frame, expected);
    expected += chunk.count;
    d.counts.push_back(chunk.count);
    d.height = chunk.height, d.width = chunk.width;
    const int64_t plane = int64_t{chunk.height} * chunk.width;
    for (int64_t i = 0; i < chunk.count * 3 * plane; ++i) d.frames.push_back(chunk.shown(i / plane % 3, chunk.data[i]));
  }
  return d;
}

Tensor noise(Shape shape, unsigned seed) {
  Tensor t(std::move(shape));
  std::mt19937 g(seed);
  std::normal_distribution<float> d;
  for (int64_t i = 0; i < t.count(); ++i) t.data()[i] = d(g);
  return t;
}

// make_golden.py's test_image(w, h, k), rolled down by `roll` rows.
Picture test_image(int w, int h, int k, int roll) {
  Picture p{w, h, {}};
  for (int r = 0; r < h; ++r)
    for (int x = 0; x < w; ++x) {
      const int y = ((r - roll) % h + h) % h;
      p.rgb.push_back(static_cast<uint8_t>((x * 255 / std::max(w - 1, 1) + k * 37) % 256));
      p.rgb.push_back(static_cast<uint8_t>((y * 255 / std::max(h - 1, 1) + k * 61) % 256));
      p.rgb.push_back(static_cast<uint8_t>(((x * (3 + k) + y * (5 + k)) / 2 + 64 * ((x / 8 + y / 8) % 2) + k * 13) % 256));
    }
  return p;
}

TEST_P(VideoVaeGolden, DecodesBlendedTiles) {
  Golden golden(GetParam());
  Bench b;
  auto stream = golden_vae(GetParam()).decode_raw(golden.tensor("unit.vae_tiles.decode_in_x32", true, 1.0f / 32));
  const Decoded d = drain(b.ctx, *stream);
  ASSERT_EQ(d.height, 288);
  ASSERT_EQ(d.frames.size(), 22u * 3 * 288 * 288);
  std::vector<float> found;   // [3, frames 0 4 21, 3::8, 5::8]
  for (int64_t channel = 0; channel < 3; ++channel)
    for (int64_t frame : {0, 4, 21})
      for (int64_t y = 3; y < 288; y += 8)
        for (int64_t x = 5; x < 288; x += 8) found.push_back(d.frames[static_cast<size_t>(((frame * 3 + channel) * 288 + y) * 288 + x)]);
  EXPECT_LT(relative_l2(found, golden.floats("unit.vae_tiles.decode_out_stride8")), kTolerance);
}

TEST_P(VideoVaeGolden, DecodesThreeClips) {
  Golden golden(GetParam());
  Bench b;
  auto stream = golden_vae(GetParam()).decode_raw(golden.tensor("unit.vae_decode17.in", true));
  const Decoded d = drain(b.ctx, *stream);
  EXPECT_EQ(d.counts, (std::vector<int64_t>{17, 17, 17, 5}));
  std::vector<float> found;   // [3, 56, 1::4, 2::4]
  for (int64_t channel = 0; channel < 3; ++channel)
    for (int64_t frame = 0; frame < 56; ++frame)
      for (int64_t y = 1; y < 32; y += 4)
        for (int64_t x = 2; x < 32; x += 4) found.push_back(d.frames[static_cast<size_t>(((frame * 3 + channel) * 32 + y) * 32 + x)]);
  EXPECT_LT(relative_l2(found, golden.floats("unit.vae_decode17.out_stride4")), kTolerance);
}

TEST_P(VideoVaeGolden, DecodesTheLatentsOfEveryRun) {
  Golden golden(GetParam());
  Bench b;
  for (const std::string& name : golden.runs(".latents")) {
    auto stream = golden_vae(GetParam()).decode(golden.tensor(name + ".latents", true));
    const Decoded d = drain(b.ctx, *stream);
    const View& index = golden.view(name + ".frames_u8_index");
    const View& wanted = golden.view(name + ".frames_u8");
    const auto* bytes = static_cast<const uint8_t*>(wanted.data);
    int64_t off = 0;
    const int64_t pixels = int64_t{d.height} * d.width;
    for (int64_t k = 0; k < index.count(); ++k) {
      const int64_t frame = std::vector<float>(to_float32(index))[static_cast<size_t>(k)];
      for (int64_t p = 0; p < pixels; ++p)
        for (int64_t c = 0; c < 3; ++c) {
          const float v = d.frames[static_cast<size_t>((frame * 3 + c) * pixels + p)];
          off += static_cast<uint8_t>(std::nearbyint(255.0f * v)) != bytes[(k * pixels + p) * 3 + c];
        }
    }
    EXPECT_LE(static_cast<double>(off), 1e-4 * static_cast<double>(wanted.count())) << name << ": bytes that differ";
    std::vector<float> means;
    for (size_t plane = 0; plane < d.frames.size() / static_cast<size_t>(pixels); ++plane) {
      auto from = d.frames.begin() + static_cast<int64_t>(plane) * pixels;
      means.push_back(static_cast<float>(std::accumulate(from, from + pixels, 0.0) / static_cast<double>(pixels)));
    }
    EXPECT_LT(relative_l2(means, golden.floats(name + ".frames_mean")), kTolerance) << name;
  }
}

TEST_P(VideoVaeGolden, EncodesClipsAndTiles) {
  Golden golden(GetParam());
  Bench b;
  std::vector<Picture> frames;
  for (int j = 0; j < 22; ++j) frames.push_back(test_image(32, 32, 5, j));
  const Tensor moments = golden_vae(GetParam()).encode(b.ctx, frames);
  EXPECT_EQ(moments.shape(), (Shape{48, 7, 2, 2}));
  EXPECT_LT(relative_l2(to_vector(moments), golden.floats("unit.vae_encode22.moments")), kTolerance);

  const std::vector<Picture> one{test_image(288, 288, 3, 0)};
  const Tensor tiled = golden_vae(GetParam()).encode(b.ctx, one);
  ASSERT_EQ(tiled.shape(), (Shape{48, 1, 18, 18}));
  std::vector<float> mean(tiled.data(), tiled.data() + tiled.count() / 2);
  EXPECT_LT(relative_l2(mean, golden.floats("unit.vae_tiles.encode_image_mean")), kTolerance);
}

TEST_P(VideoVaeGolden, EncodesTheConditionsOfEveryRun) {
  Golden golden(GetParam());
  Bench b;
  int checked = 0;
  for (const NamedView& t : golden.file.tensors()) {   // RUN.condition_pixels_u8.K [1, 3, frames, H, W]; of a video only two frames stand there
    const size_t at = t.name.find("condition_pixels_u8.");
    if (at == std::string::npos || t.view.shape[2] != 1) continue;
    Picture p{static_cast<int>(t.view.shape[4]), static_cast<int>(t.view.shape[3]), {}};
    const int64_t n = int64_t{p.width} * p.height;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < 3; ++c) p.rgb.push_back(static_cast<const uint8_t*>(t.view.data)[c * n + i]);
    const std::vector<Picture> one{p};
    const std::string moments = t.name.substr(0, at) + "condition_moments." + t.name.substr(at + std::strlen("condition_pixels_u8."));
    EXPECT_LT(relative_l2(to_vector(golden_vae(GetParam()).encode(b.ctx, one)), golden.floats(moments)), kTolerance) << moments;
    ++checked;
  }
  EXPECT_GE(checked, 3);
}

// Frames of [5n+2 latents]: one chunk of 17 a clip, then 5; two latents are one short clip.
TEST(VideoVae, AllLegalLengths) {
  Bench b;
  for (int64_t n = 0; n <= 21; ++n) {
    const int64_t latents = 5 * n + 2, frames = 17 * n + 5;
    ASSERT_EQ(golden_vae().decoded_frames(latents), frames);
    auto stream = golden_vae().decode(noise({24, latents, 2, 2}, 1));
    const Decoded d = drain(b.ctx, *stream);
    std::vector<int64_t> counts(static_cast<size_t>(n), 17);
    counts.push_back(5);
    EXPECT_EQ(d.counts, counts);
    EXPECT_EQ(d.frames.size(), static_cast<size_t>(frames * 3 * 32 * 32));
    EXPECT_TRUE(std::all_of(d.frames.begin(), d.frames.end(), [](float v) { return v >= 0 && v <= 1; }));
  }
}

// Lengths that no encoder makes: the reference repeats the last latent and cuts the frames again (counts of diffusers 0.42.1,
// which refuses a single latent).
TEST(VideoVae, OtherLengths) {
  for (auto [latents, frames] : {std::pair<int64_t, int64_t>{1, 1}, {3, 9}, {4, 13}, {5, 17}, {6, 18}, {8, 26}, {11, 35}, {12, 39}})
    EXPECT_EQ(golden_vae().decoded_frames(latents), frames) << latents;
}

TEST(VideoVae, TwoLatentsAreOneShortClip) {
  Bench b;
  const VideoVae& vae = golden_vae();
  const Tensor z = noise({24, 2, 2, 4}, 7);
  auto stream = vae.decode_raw(noise({24, 2, 2, 4}, 7));
  const Decoded d = drain(b.ctx, *stream);
  Tensor tokens({2 * 2 * 4, 24}), patches({2 * 2 * 4, vae.config().patch_floats()});
  for (int64_t k = 0; k < 24; ++k)
    for (int64_t v = 0; v < 16; ++v) tokens.data()[v * 24 + k] = z.data()[k * 16 + v];
  decode_patches(b.ctx, vae.decoder(), vae.config(), tokens.mat(), 2, 2, 4, patches.mat());
  ASSERT_EQ(d.frames.size(), 5u * 3 * 32 * 64);
  for (int64_t frame = 3; frame < 8; ++frame)   // of the 8 that two latents make
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t y = 0; y < 32; ++y)
        for (int64_t x = 0; x < 64; ++x) {
          const int64_t voxel = (frame / 4 * 2 + y / 16) * 4 + x / 16;
          ASSERT_EQ(d.frames[static_cast<size_t>((((frame - 3) * 3 + c) * 32 + y) * 64 + x)],
                    patches.data()[voxel * 3072 + ((c * 4 + frame % 4) * 16 + y % 16) * 16 + x % 16]);
        }
}

TEST(VideoVae, BuffersDoNotGrowWithTheLength) {
  auto run = [](int64_t latents) {
    Bench b;
    auto stream = golden_vae().decode(noise({24, latents, 2, 2}, 3));
    FrameChunk chunk;
    size_t second = 0, last = 0;
    for (int i = 0; stream->next(b.ctx, chunk); ++i) {
      last = mallinfo2().uordblks + mallinfo2().hblkhd;
      if (i == 1) second = last;
    }
    EXPECT_LE(last, second + 4096);
    return b.arena.peak_bytes();
  };
  EXPECT_EQ(run(12), run(107));
}

TEST(VideoVae, SameFramesForAnyThreadCount) {
  auto frames = [](int threads) {
    Bench b(threads);
    auto stream = golden_vae().decode(noise({24, 12, 4, 6}, 9));
    return drain(b.ctx, *stream).frames;
  };
  const auto one = frames(1);
  EXPECT_EQ(one, frames(2));
  EXPECT_EQ(one, frames(5));
}

TEST(VideoVae, StopsWhenCancelled) {
  Bench b;
  auto stream = golden_vae().decode(noise({24, 12, 2, 2}, 3));
  FrameChunk chunk;
  ASSERT_TRUE(stream->next(b.ctx, chunk));
  b.cancel = true;
  EXPECT_THROW(stream->next(b.ctx, chunk), Cancelled);
  const std::vector<Picture> one{test_image(32, 32, 1, 0)};
  EXPECT_THROW(golden_vae().encode(b.ctx, one), Cancelled);
}

TEST(VideoVae, Bf16StaysClose) {
  Golden golden;
  Bench b;
  const auto vae = load_video_vae(select_ops(), golden_path("model/vae"), Compute::bf16, false);
  auto stream = vae->decode_raw(golden.tensor("unit.vae_decode17.in", true));
  auto exact = golden_vae().decode_raw(golden.tensor("unit.vae_decode17.in", true));
  EXPECT_LT(relative_l2(drain(b.ctx, *stream).frames, drain(b.ctx, *exact).frames), 1e-2);
}

ErrorKind kind_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_GT(std::string(e.what()).size(), 20u);
    return e.kind;
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::internal;
}

TEST(VideoVae, RefusesBadRequests) {
  Bench b;
  std::vector<Picture> frames;
  EXPECT_EQ(kind_of([&] { golden_vae().encode(b.ctx, frames); }), ErrorKind::request);
  for (auto [w, h] : {std::pair{16, 32}, {40, 32}, {0, 0}}) {
    frames = {test_image(w, h, 1, 0)};
    EXPECT_EQ(kind_of([&] { golden_vae().encode(b.ctx, frames); }), ErrorKind::request) << w;
  }
  frames = {test_image(32, 32, 1, 0), test_image(32, 64, 1, 0)};
  EXPECT_EQ(kind_of([&] { golden_vae().encode(b.ctx, frames); }), ErrorKind::request);
  EXPECT_EQ(kind_of([&] { golden_vae().decode(Tensor()); }), ErrorKind::request);
}

TEST(VideoVaeConfig, NamesTheKeyThatIsWrong) {
  const std::string path = golden_path("model/vae/config.json");
  const Json good = read_json(path);
  const VideoVaeConfig c = parse_video_vae_config({good, path});
  EXPECT_EQ(c.tokens_chunk_size(), 5);
  EXPECT_EQ(c.token_overlap(), 2);
  EXPECT_EQ(c.frame_pre_padding(), 3);
  for (const auto& [key, value] : good.items()) {
    if (key.starts_with("_")) continue;
    for (const Json& bad : {Json(-1), Json(1e30), Json("x"), Json(nullptr), Json::array(), Json::array({1e40}), Json::array({-3, 2})}) {
      Json config = good;
      config[key] = bad;
      try {
        parse_video_vae_config({config, path});
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
