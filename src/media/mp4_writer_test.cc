#include "media/mp4_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/test_support.h"
#include "media/colour.h"
#include "media/decode.h"
#include "media/demuxer.h"

namespace zt {
namespace {

namespace fs = std::filesystem;

size_t entries(const TestFolder& dir) { return static_cast<size_t>(std::distance(fs::directory_iterator(dir.path()), {})); }

std::string slurp(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

// A soft moving pattern: what video codecs are made for.
std::vector<uint8_t> frame(int w, int h, int t) {
  std::vector<uint8_t> rgb;
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++)
      for (int c = 0; c < 3; c++)
        rgb.push_back(static_cast<uint8_t>(128 + 90 * std::sin(0.05 * x + 0.11 * t + c) * std::cos(0.07 * y - 0.05 * t + 2 * c)));
  return rgb;
}

// The sound of n frames: 40 audio latents a second, 800 samples each.
int64_t sound_length(int frames) { return std::llround(frames / 24.0 * 40) * 800; }

std::vector<float> clicks(int64_t samples, std::initializer_list<int64_t> at) {
  std::vector<float> s(static_cast<size_t>(samples));
  for (int64_t i : at)
    if (i < samples) s[static_cast<size_t>(i)] = 0.9f;
  return s;
}

enum class Order { video_first, audio_first, mixed };

void write_clip(const std::string& path, const Mp4Options& o, int frames, const std::vector<float>& left, const std::vector<float>& right,
                Order order = Order::video_first) {
  Mp4Writer writer(path, o);
  const int64_t n = static_cast<int64_t>(left.size());
  const auto sound = [&](int64_t from, int64_t to) {
    const float* planes[2] = {left.data() + from, right.data() + from};
    if (o.channels && to > from) writer.write_audio(planes, to - from);
  };
  if (order == Order::audio_first) sound(0, n);
  for (int t = 0; t < frames; t++) {
    writer.write_frames(frame(o.width, o.height, t).data(), 1);
    if (order == Order::mixed) sound(n * t / frames, n * (t + 1) / frames);
  }
  if (order == Order::video_first) sound(0, n);
  EXPECT_EQ(writer.frames(), frames);
  EXPECT_EQ(writer.samples(), o.channels ? n : 0);
  writer.finish();
}

double psnr(const Picture& a, const std::vector<uint8_t>& b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); i++) sum += std::pow(a.rgb[i] - b[i], 2);
  return 10 * std::log10(255.0 * 255.0 * static_cast<double>(b.size()) / std::max(sum, 1e-9));
}

struct Counted {
  int64_t packets = 0, first_pts = INT64_MAX, duration = 0;  // of one stream, in its unit; priming (negative times) included
};

Counted count_packets(Demuxer& media, const AVStream* stream) {
  Counted c;
  const av::Packet packet = av::make_packet();
  while (av_read_frame(&media.context(), packet.get()) >= 0) {
    if (packet->stream_index == stream->index)
      c.packets++, c.first_pts = std::min(c.first_pts, packet->pts), c.duration += packet->duration;
    av_packet_unref(packet.get());
  }
  return c;
}

TEST(Mp4Writer, TheStreamGrowsAndHoldsWhatTheFileHolds) {
  const TestFolder dir;
  const std::string path = dir.file("clip.mp4"), stream = dir.file("stream.mp4");
  for (int frames : {5, 22, 124}) {
    Mp4Options o{.width = 96, .height = 64};
    o.stream_path = stream;
    const int64_t n = sound_length(frames);
    const auto left = clicks(n, {2048, 3500, n - 1500}), right = clicks(n, {3001, n - 700});
    std::vector<std::string> seen;   // the stream as a reader finds it
    {
      Mp4Writer writer(path, o);
      const float* planes[2] = {left.data(), right.data()};
      writer.write_audio(planes, n);   // the sound comes first, as the engine makes it
      for (int t = 0; t < frames; t++) {
        writer.write_frames(frame(96, 64, t).data(), 1);
        if (const std::string now = slurp(stream); seen.empty() || now.size() > seen.back().size()) seen.push_back(now);
      }
      writer.finish();
    }
    const std::string whole = slurp(stream);
    for (const std::string& part : seen) ASSERT_EQ(whole.compare(0, part.size(), part), 0);   // nothing is rewritten
    if (frames == 124) {
      EXPECT_GE(seen.size(), 6u);
    }
    const Clip a = load_clip(path), b = load_clip(stream);
    ASSERT_EQ(a.frames.size(), static_cast<size_t>(frames));
    ASSERT_EQ(b.frames.size(), a.frames.size());
    for (size_t t = 0; t < a.frames.size(); t++) ASSERT_EQ(a.frames[t].rgb, b.frames[t].rgb) << t;
    ASSERT_TRUE(a.sound && b.sound);
    for (size_t c = 0; c < 2; c++) {
      ASSERT_GE(b.sound->channels[c].size(), a.sound->channels[c].size());   // of the last frame of the encoder the stream keeps the padding
      ASSERT_LT(b.sound->channels[c].size(), a.sound->channels[c].size() + 2048);
      for (size_t i = 0; i < a.sound->channels[c].size(); i++) ASSERT_EQ(a.sound->channels[c][i], b.sound->channels[c][i]) << i;
    }
  }
}

TEST(Mp4Writer, EveryLegalLengthIsFrameExact) {
  const TestFolder dir;
  for (int frames = 5; frames <= 362; frames += 17) {
    const std::string path = dir.file("clip.mp4");
    const auto sound = clicks(sound_length(frames), {});
    write_clip(path, {.width = 64, .height = 32, .preset = "ultrafast"}, frames, sound, sound);
    const MediaLimits limits;
    Demuxer media(path, limits);
    ASSERT_EQ(media.video()->nb_frames, frames);
    EXPECT_EQ(media.video()->duration, av_rescale_q(frames, {1, 24}, media.video()->time_base));
    EXPECT_EQ(media.video()->start_time, 0);
    EXPECT_EQ(media.sound()->start_time, 0);
    EXPECT_EQ(media.sound()->duration, sound_length(frames));
    const Counted video = count_packets(media, media.video());
    EXPECT_EQ(video.packets, frames);
    EXPECT_EQ(video.first_pts, 0);
  }
}

TEST(Mp4Writer, PicturesAndSoundComeBackAtTheirInstants) {
  const TestFolder dir;
  for (int frames : {5, 22, 39, 124}) {
    const std::string path = dir.file("clip.mp4");
    const int64_t n = sound_length(frames);
    // Clicks at the very start of a frame of the encoder, inside one, and near the end.
    const auto left = clicks(n, {2048, 3500, n - 1500}), right = clicks(n, {3001, n - 700});
    write_clip(path, {.width = 96, .height = 64}, frames, left, right);
    const Clip clip = load_clip(path);
    ASSERT_EQ(clip.frames.size(), static_cast<size_t>(frames));
    EXPECT_DOUBLE_EQ(clip.fps, 24);
    for (int t = 0; t < frames; t++) ASSERT_GT(psnr(clip.frames[static_cast<size_t>(t)], frame(96, 64, t)), 35) << t << " of " << frames;
    ASSERT_TRUE(clip.sound);
    EXPECT_EQ(clip.sound->sample_rate, 32000);
    ASSERT_EQ(clip.sound->channels.size(), 2u);
    EXPECT_EQ(clip.sound->samples(), n);
    for (int c = 0; c < 2; c++)
      for (int64_t at : c ? std::vector<int64_t>{3001, n - 700} : std::vector<int64_t>{2048, 3500, n - 1500}) {
        const auto& s = clip.sound->channels[static_cast<size_t>(c)];
        int64_t peak = at - 400;
        for (int64_t i = at - 400; i < std::min(at + 400, n); i++)
          if (s[static_cast<size_t>(i)] > s[static_cast<size_t>(peak)]) peak = i;
        EXPECT_LE(std::llabs(peak - at), 1) << frames << " frames, channel " << c;
        EXPECT_GT(s[static_cast<size_t>(peak)], 0.3f);
      }
  }
}

TEST(Mp4Writer, TagsAndIndex) {
  const TestFolder dir;
  const std::string path = dir.file("clip.mp4"), json = R"({"seed":18446744073709551615,"prompt":"a \"red\" fish, 魚 🐟","steps":[1,2]})";
  const auto sound = clicks(sound_length(22), {});
  write_clip(path, {.width = 64, .height = 32, .metadata = {{"zoetrope", json}, {"comment", "made by a test"}}}, 22, sound, sound);
  EXPECT_EQ(read_metadata(path), json);
  EXPECT_EQ(read_metadata(path, "comment"), "made by a test");
  EXPECT_EQ(read_metadata(path, "absent"), "");
  const std::string bytes = slurp(path);
  EXPECT_LT(bytes.find("moov"), bytes.find("mdat"));
  EXPECT_NE(bytes.find("colrnclx\0\1\0\1\0\1\0", 0, 15), std::string::npos);  // primaries, transfer, matrix 1; limited range
  const MediaLimits limits;
  Demuxer media(path, limits);
  const AVCodecParameters& v = *media.video()->codecpar;
  EXPECT_EQ(v.codec_id, AV_CODEC_ID_H264);
  EXPECT_EQ(v.profile, FF_PROFILE_H264_HIGH);
  EXPECT_EQ(v.format, AV_PIX_FMT_YUV420P);
  EXPECT_EQ(v.color_primaries, AVCOL_PRI_BT709);
  EXPECT_EQ(v.color_trc, AVCOL_TRC_BT709);
  EXPECT_EQ(v.color_space, AVCOL_SPC_BT709);
  EXPECT_EQ(v.color_range, AVCOL_RANGE_MPEG);
  EXPECT_EQ(v.chroma_location, AVCHROMA_LOC_LEFT);
  EXPECT_EQ(media.sound()->codecpar->codec_id, AV_CODEC_ID_AAC);
  EXPECT_EQ(media.sound()->codecpar->profile, FF_PROFILE_AAC_LOW);
}

TEST(Mp4Writer, SameInputSameBytesInAnyOrderOfArrival) {
  const TestFolder dir;
  const Mp4Options o{.width = 64, .height = 48};
  const int64_t n = sound_length(56);
  std::vector<float> sound(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; i++) sound[static_cast<size_t>(i)] = static_cast<float>(0.4 * std::sin(0.03 * static_cast<double>(i)));
  write_clip(dir.file("a.mp4"), o, 56, sound, sound, Order::video_first);
  write_clip(dir.file("b.mp4"), o, 56, sound, sound, Order::video_first);
  write_clip(dir.file("c.mp4"), o, 56, sound, sound, Order::audio_first);
  write_clip(dir.file("d.mp4"), o, 56, sound, sound, Order::mixed);
  const std::string a = slurp(dir.file("a.mp4"));
  EXPECT_GT(a.size(), 1000u);
  EXPECT_TRUE(a == slurp(dir.file("b.mp4"))) << "a second time";
  EXPECT_TRUE(a == slurp(dir.file("c.mp4"))) << "sound first";
  EXPECT_TRUE(a == slurp(dir.file("d.mp4"))) << "sound in between";
  Mp4Options beside = o;
  beside.sound_beside = true;
  for (Order order : {Order::video_first, Order::audio_first, Order::mixed}) {
    write_clip(dir.file("e.mp4"), beside, 56, sound, sound, order);
    EXPECT_TRUE(a == slurp(dir.file("e.mp4"))) << "sound on a thread of its own";
  }
}

TEST(Mp4Writer, MoreSoundThanPicturesFirstComesInterleavedToo) {   // a muxer that waits so long only would write it where it came
  const TestFolder dir;
  const Mp4Options o{.width = 16, .height = 16, .crf = 40, .preset = "ultrafast", .sound_coder = "fast"};
  const std::vector<float> sound(static_cast<size_t>(sound_length(24 * 40)), 0.25f);
  write_clip(dir.file("a.mp4"), o, 24 * 40, sound, sound, Order::audio_first);
  write_clip(dir.file("b.mp4"), o, 24 * 40, sound, sound, Order::mixed);
  EXPECT_TRUE(slurp(dir.file("a.mp4")) == slurp(dir.file("b.mp4")));
}

TEST(Mp4Writer, WithoutSoundAndMono) {
  const TestFolder dir;
  write_clip(dir.file("silent.mp4"), {.width = 32, .height = 32, .channels = 0}, 7, {}, {});
  EXPECT_FALSE(load_clip(dir.file("silent.mp4")).sound);
  EXPECT_FALSE(probe(dir.file("silent.mp4")).has_sound);
  const auto sound = clicks(9000, {4000});
  write_clip(dir.file("mono.mp4"), {.width = 32, .height = 32, .channels = 1}, 7, sound, sound);
  EXPECT_EQ(load_sound(dir.file("mono.mp4")).channels.size(), 1u);
  Mp4Writer silent(dir.file("x.mp4"), {.width = 32, .height = 32, .channels = 0});
  const float* planes[] = {sound.data()};
  EXPECT_THROW(silent.write_audio(planes, 10), Error);
}

TEST(Mp4Writer, NothingIsLeftWithoutFinish) {
  const TestFolder dir;
  {
    Mp4Writer writer(dir.file("clip.mp4"), {.width = 32, .height = 32});
    writer.write_frames(frame(32, 32, 0).data(), 1);
    EXPECT_EQ(entries(dir), 1u);
    EXPECT_FALSE(fs::exists(dir.file("clip.mp4")));
  }
  EXPECT_EQ(entries(dir), 0u);
  Mp4Writer empty(dir.file("clip.mp4"), {.width = 32, .height = 32});
  EXPECT_THROW(empty.finish(), Error);  // no frame
  EXPECT_EQ(entries(dir), 0u);
  EXPECT_THROW(empty.write_frames(frame(32, 32, 0).data(), 1), Error);
}

TEST(Mp4Writer, AFailedRunLeavesTheOldFile) {
  const TestFolder dir;
  std::ofstream(dir.file("clip.mp4")) << "precious";
  {
    Mp4Writer writer(dir.file("clip.mp4"), {.width = 32, .height = 32});
    writer.write_frames(frame(32, 32, 0).data(), 1);
    std::vector<float> bad(10, std::numeric_limits<float>::quiet_NaN());
    const float* planes[2] = {bad.data(), bad.data()};
    EXPECT_THROW(writer.write_audio(planes, 10), Error);
    EXPECT_EQ(entries(dir), 1u);
  }
  EXPECT_EQ(slurp(dir.file("clip.mp4")), "precious");
}

std::string refused(const std::string& path, const Mp4Options& o) {
  try {
    Mp4Writer writer(path, o);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::request) << e.what();
    return e.what();
  }
  ADD_FAILURE() << path << " was accepted";
  return "";
}

TEST(Mp4Writer, BadOptionsAndPlaces) {
  const TestFolder dir;
  const Mp4Options good{.width = 32, .height = 32};
  EXPECT_NE(refused(dir.file("a.mp4"), {.width = 33, .height = 32}).find("33x32"), std::string::npos);
  EXPECT_NE(refused(dir.file("a.mp4"), {.width = 32, .height = 0}).find("32x0"), std::string::npos);
  EXPECT_NE(refused(dir.file("a.mp4"), {.width = 32, .height = 32, .sample_rate = 12345}).find("12345"), std::string::npos);
  EXPECT_NE(refused(dir.file("a.mp4"), {.width = 32, .height = 32, .preset = "warp"}).find("warp"), std::string::npos);
  EXPECT_NE(refused(dir.file("no/such/a.mp4"), good).find("no folder"), std::string::npos);
  EXPECT_NE(refused(dir.file(""), good).find("no file name"), std::string::npos);
  EXPECT_NE(refused("/dev/full", good).find("device"), std::string::npos);
  EXPECT_NE(refused("/proc/a.mp4", good).find("cannot write"), std::string::npos);  // a place that nobody may write, root included
  EXPECT_EQ(entries(dir), 0u);
}

// The file size limit of the process stands for a full disk: both fail inside write(2) and take the same way out.
TEST(Mp4Writer, AFullDiskLeavesNothing) {
  const TestFolder dir;
  const auto sound = clicks(sound_length(124), {});
  for (bool beside : {false, true}) {   // then it is the sound's thread that meets it, now and then
    struct rlimit before = {};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto old = std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {20000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    ErrorKind kind = ErrorKind::internal;
    std::string what = "no error";
    try {
      Mp4Writer writer(dir.file("clip.mp4"), {.width = 320, .height = 256, .crf = 1, .sound_beside = beside});
      for (int t = 0; t < 124; t++) {
        const float* planes[2] = {sound.data() + t * 1024, sound.data() + t * 1024};
        if (beside) writer.write_audio(planes, 1024);
        writer.write_frames(frame(320, 256, 7 * t).data(), 1);
      }
      writer.finish();
    } catch (const Error& e) { kind = e.kind, what = e.what(); }
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, old);
    EXPECT_EQ(kind, ErrorKind::request) << what;
    EXPECT_NE(what.find("full"), std::string::npos) << what;
    EXPECT_NE(what.find("clip.mp4"), std::string::npos) << what;
    EXPECT_EQ(entries(dir), 0u);
  }
}

TEST(Colour, GreyStaysGreyAndPrimariesAreBt709) {
  const auto convert = [](int r, int g, int b) {
    std::vector<uint8_t> rgb;
    for (int i = 0; i < 16; i++) rgb.insert(rgb.end(), {static_cast<uint8_t>(r), static_cast<uint8_t>(g), static_cast<uint8_t>(b)});
    std::vector<uint8_t> y(16), u(4), v(4);
    rgb_to_yuv420_bt709(rgb.data(), 4, 4, {y.data(), u.data(), v.data(), 4, 2, 2});
    EXPECT_EQ(y, std::vector<uint8_t>(16, y[0]));
    EXPECT_EQ(u, std::vector<uint8_t>(4, u[0]));
    return std::vector<int>{y[5], u[3], v[3]};
  };
  for (int g = 0; g < 256; g++)
    EXPECT_EQ(convert(g, g, g), (std::vector<int>{static_cast<int>(std::lround(16 + 219.0 / 255 * g)), 128, 128}));
  EXPECT_EQ(convert(255, 0, 0), (std::vector<int>{63, 102, 240}));  // the 8-bit colour bars of BT.709
  EXPECT_EQ(convert(0, 255, 0), (std::vector<int>{173, 42, 26}));
  EXPECT_EQ(convert(0, 0, 255), (std::vector<int>{32, 240, 118}));
}

}  // namespace
}  // namespace zt
