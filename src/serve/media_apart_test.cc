// What decodes apart gives the bytes that decoding here gives; whatever becomes of the other process is an error of the request.
#include "serve/media_apart.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/test_support.h"
#include "media/mp4_writer.h"
#include "media/png.h"
#include "serve/commands.h"
#include "serve/confine.h"
#include "serve/medium_answer.h"

namespace zt {
namespace {

namespace fs = std::filesystem;

const std::string kFixtures = ZT_SOURCE_DIR "/tests/fixtures/media/";

std::string slurp(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(f), {}};
}

std::span<const uint8_t> bytes_of(std::string_view s) { return {reinterpret_cast<const uint8_t*>(s.data()), s.size()}; }

bool same(const Picture& a, const Picture& b) { return a.width == b.width && a.height == b.height && a.rgb == b.rgb; }
bool same(const Sound& a, const Sound& b) { return a.sample_rate == b.sample_rate && a.channels == b.channels; }
bool same(const Clip& a, const Clip& b) {
  return a.fps == b.fps && std::equal(a.frames.begin(), a.frames.end(), b.frames.begin(), b.frames.end(), [](auto& x, auto& y) { return same(x, y); }) &&
         a.sound.has_value() == b.sound.has_value() && (!a.sound || same(*a.sound, *b.sound));
}

Reference here(const std::string& path, const MediaLimits& limits = {}) {
  switch (probe(path, limits).kind) {
    case MediaKind::image: return load_picture(path, limits);
    case MediaKind::video: return load_clip(path, limits);
    case MediaKind::sound: break;
  }
  return load_sound(path, limits);
}

bool same(const Reference& a, const Reference& b) {
  return a.index() == b.index() && std::visit([&](const auto& x) { return same(x, std::get<std::decay_t<decltype(x)>>(b)); }, a);
}

// A program that has the decoder's place.
DecoderProcess shell(const std::string& script, double grace = 20) { return {{"/bin/sh", "-c", script, "sh"}, int64_t{4} << 30, grace}; }

class MediaApart : public testing::Test {
 protected:
  MediaApart() : folder_(testing::TempDir() + fmt::format("zt_apart_{}", getpid())) { fs::create_directories(folder_); }
  ~MediaApart() override { fs::remove_all(folder_); }

  // A decoder that answers these bytes.
  DecoderProcess answering(const std::string& bytes) {
    std::ofstream(folder_ + "/answer", std::ios::binary) << bytes;
    return shell("cat " + folder_ + "/answer");
  }

  std::string folder_;
  const std::string picture_ = kFixtures + "rgb.png";
};

template <class Head>
std::string part(MediumPart kind, const Head& head, const std::string& rest, int64_t more = 0) {
  const PartHeader header{kind, 0, sizeof head + rest.size() + static_cast<uint64_t>(more)};
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + std::string(reinterpret_cast<const char*>(&head), sizeof head) + rest;
}

TEST_F(MediaApart, EveryFixtureIsTheSameToTheByteOrTheSameError) {
  int decoded = 0, refused = 0;
  for (const auto& e : fs::directory_iterator(kFixtures)) {
    const std::string path = e.path().string(), ending = e.path().extension().string();
    if (!e.is_regular_file() || ending == ".rgb" || ending == ".json" || ending == ".py") continue;
    std::optional<Reference> wanted;
    std::string error;
    try {
      wanted = here(path);
    } catch (const Error& x) {
      error = x.what();
    }
    if (wanted) {
      const MediaInfo a = probe(path), b = probe_apart(path);
      EXPECT_EQ(std::tie(a.kind, a.width, a.height, a.fps, a.frames, a.seconds, a.has_sound, a.sample_rate, a.channels, a.format),
                std::tie(b.kind, b.width, b.height, b.fps, b.frames, b.seconds, b.has_sound, b.sample_rate, b.channels, b.format)) << path;
      EXPECT_TRUE(same(*wanted, load_reference_apart(path))) << path;
      if (a.kind == MediaKind::image) {
        EXPECT_TRUE(same(load_picture(path), load_picture_apart(path))) << path;
      }
      const std::string bytes = slurp(path);
      EXPECT_TRUE(same(*wanted, load_reference_apart(MediaSource(bytes_of(bytes), "memory")))) << path;
      ++decoded;
    } else {
      EXPECT_EQ(error, message([&] { load_reference_apart(path); })) << path;
      ++refused;
    }
  }
  EXPECT_GE(decoded, 8);
  RecordProperty("refused", refused);
}

TEST_F(MediaApart, Mp4AndWavAreTheSame) {
  const std::string mp4 = folder_ + "/a.mp4", wav = folder_ + "/a.wav";
  {
    Mp4Options o;
    o.width = 64, o.height = 48;
    Mp4Writer writer(mp4, o);
    std::vector<uint8_t> frame(64 * 48 * 3);
    std::vector<float> sound(32000);
    for (size_t i = 0; i < sound.size(); ++i) sound[i] = static_cast<float>(i % 97) / 100;
    const float* planes[] = {sound.data(), sound.data()};
    for (int n = 0; n < 24; ++n) {
      for (size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<uint8_t>(static_cast<int>(i) * (n + 1) / 7);
      writer.write_frames(frame.data(), 1);
    }
    writer.write_audio(planes, 32000);
    writer.finish();
  }
  std::string bytes("RIFF\x2c\x03\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x44\xac\0\0\x10\xb1\x02\0\x04\0\x10\0data\x20\x03\0\0", 44);
  for (int i = 0; i < 800; ++i) bytes += static_cast<char>(i * 37);
  std::ofstream(wav, std::ios::binary) << bytes;

  for (const int threads : {1, 3}) {
    MediaLimits limits;
    limits.threads = threads;
    const Reference clip = load_reference_apart(mp4, limits);
    ASSERT_TRUE(std::holds_alternative<Clip>(clip));
    EXPECT_EQ(std::get<Clip>(clip).frames.size(), 24u);
    EXPECT_TRUE(same(clip, here(mp4)));
  }
  const Reference sound = load_reference_apart(wav);
  ASSERT_TRUE(std::holds_alternative<Sound>(sound));
  EXPECT_EQ(std::get<Sound>(sound).samples(), 200);
  EXPECT_TRUE(same(sound, here(wav)));
}

TEST_F(MediaApart, LimitsAndFitAreThoseOfDecodingHere) {
  const std::string clip = kFixtures + "silent.mkv";
  MediaLimits limits;
  limits.fit = [](Picture p) {
    p.height = 1, p.rgb.resize(static_cast<size_t>(p.width) * 3);
    return p;
  };
  EXPECT_TRUE(same(load_reference_apart(clip, limits), here(clip, limits)));
  limits.fit = {}, limits.max_seconds = 0.4;
  EXPECT_TRUE(same(load_reference_apart(clip, limits), here(clip, limits)));
  for (auto change : {+[](MediaLimits& l) { l.max_bytes = 2000; }, +[](MediaLimits& l) { l.max_side = 14; }, +[](MediaLimits& l) { l.max_pixels = 100; }}) {
    MediaLimits small;
    change(small);
    EXPECT_EQ(message([&] { load_reference_apart(clip, small); }), message([&] { load_clip(clip, small); }));
  }
}

TEST_F(MediaApart, NoMediumIsRefusedAsHere) {
  const std::string text = "#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n";
  const MediaSource source(bytes_of(text), "reference[0]");
  EXPECT_EQ(message([&] { probe_apart(source); }), message([&] { probe(source); }));
  EXPECT_EQ(message([&] { load_picture_apart(kFixtures + "silent.mkv"); }), message([&] { load_picture(kFixtures + "silent.mkv"); }));
  EXPECT_EQ(message([&] { load_reference_apart(folder_ + "/none"); }), message([&] { load_picture(folder_ + "/none"); }));
}

TEST_F(MediaApart, ACrashIsTheMediumsFault) {
  const MediaSource source(bytes_of("abc"), "input_reference");
  expect_words(message([&] { probe_apart(source, {}, shell("kill -KILL $$")); }), {"input_reference:", "signal 9", "wanted", "save it again"});
  expect_words(message([&] { probe_apart(source, {}, shell("kill -SEGV $$")); }), {"input_reference:", "signal 11"});
  expect_words(message([&] { probe_apart(source, {}, shell("exit 7")); }), {"exit code 7"});
  expect_words(message([&] { probe_apart(source, {}, shell("exec >&-; sleep 60")); }), {"stopped answering"});
  expect_words(message([&] { probe_apart(source, {}, {{folder_ + "/no-program"}, 1 << 30, 5}); }, ErrorKind::resource), {"cannot be started"});
}

TEST_F(MediaApart, WhatTakesTooLongIsEndedWithItsProcess) {
  MediaLimits limits;
  limits.max_work = 0.3;
  const MediaSource source(bytes_of("abc"), "input_reference");
  const std::string pid = folder_ + "/pid";
  const auto start = std::chrono::steady_clock::now();
  expect_words(message([&] { probe_apart(source, limits, shell("echo $$ > " + pid + "; exec sleep 600", 1)); }), {"input_reference:", "0.3 s", "shorter"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  const int child = std::stoi(slurp(pid));
  EXPECT_EQ(kill(child, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  // One that answers for ever, a little at a time, is no better.
  expect_words(message([&] { probe_apart(source, limits, shell("printf '\\002\\0\\0\\0\\0\\0\\0\\0'; while :; do sleep 1; done", 1)); }), {"0.3 s"});
  expect_words(message([&] { probe_apart(source, {}, shell("ulimit -S -t 1; while :; do :; done")); }), {"to decode"});
}

TEST_F(MediaApart, AnAnswerThatLiesIsRefused) {
  const MediaSource source(bytes_of("abc"), "input_reference");
  const MediumSize one{1, 1};
  const auto refused = [&](const std::string& bytes, std::initializer_list<const char*> words) {
    expect_words(message([&] { load_reference_apart(source, {}, answering(bytes)); }), {"input_reference: broke its decoder", "wanted"});
    expect_words(message([&] { load_reference_apart(source, {}, answering(bytes)); }), words);
  };
  const std::string frame = part(MediumPart::frame, one, "rgb");
  const auto clip = [&](uint32_t instants, std::vector<uint32_t> order, uint32_t sound = 0) {
    return part(MediumPart::clip, MediumClip{24, instants, sound}, {reinterpret_cast<const char*>(order.data()), 4 * order.size()});
  };
  ASSERT_TRUE(same(load_reference_apart(source, {}, answering(part(MediumPart::picture, one, "rgb"))), Reference(Picture{1, 1, {'r', 'g', 'b'}})));
  const Reference held = load_reference_apart(source, {}, answering(frame + frame + clip(3, {0, 0, 1})));
  EXPECT_EQ(std::get<Clip>(held).frames.size(), 3u);

  const std::string picture = part(MediumPart::picture, one, "rgb");
  for (size_t n = 0; n < picture.size(); n += 5) refused(picture.substr(0, n), {"exit code 0"});
  refused(part(MediumPart::picture, MediumSize{100000, 1}, "rgb"), {"100000x1"});
  refused(part(MediumPart::picture, MediumSize{-1, -1}, "rgb"), {"-1x-1"});
  refused(part(MediumPart::picture, MediumSize{16384, 16384}, "rgb"), {"16384x16384"});
  refused(part(MediumPart::picture, one, "rgb", 1), {"part 3 of 12 bytes"});
  refused(part(MediumPart::picture, one, "", -1), {"part 3 of 7 bytes"});
  refused(part(static_cast<MediumPart>(77), one, "rgb"), {"unknown part"});
  refused(part(MediumPart::facts, MediumFacts{}, "png"), {"unknown part"});
  refused(clip(1, {0}), {"a clip of 1 frames"});
  refused(frame + clip(UINT32_MAX, {0}), {"a clip of 4294967295 frames"});
  refused(frame + clip(2, {0}), {"part 5 of 20 bytes"});
  refused(frame + clip(2, {0, 1}), {"out of order"});
  refused(frame + frame + clip(1, {1}), {"out of order"});
  refused(frame + frame + clip(1, {0}), {"without a place"});
  refused(frame + part(MediumPart::frame, MediumSize{2, 1}, "rgbrgb") + clip(2, {0, 1}), {"two sizes"});
  refused(frame + clip(1, {0}, 1) + frame, {"no sound"});
  refused(part(MediumPart::sound, MediumSound{32000, 1, int64_t{1} << 60}, ""), {"samples"});
  refused(part(MediumPart::sound, MediumSound{32000, 9, 1}, "abcd"), {"9 channels"});
  refused(part(MediumPart::sound, MediumSound{32000, 2, 1}, "abcd"), {"part 6 of 20 bytes"});

  const auto facts = [&](const MediumFacts& f, const char* word) {
    expect_words(message([&] { probe_apart(source, {}, answering(part(MediumPart::facts, f, "png"))); }), {"broke its decoder", word});
  };
  facts({9, 1, 1, 0, 0, 0, 0, 0, 0}, "kind");
  facts({0, 1, 1 << 30, 0, 0, 0, 0, 0, 0}, "pixels");
  facts({1, 1, 1, 0, 0, 0, NAN, 0, 0}, "rate");
  facts({2, 0, 0, 1, 1 << 30, 1, 0, 0, 0}, "sound");
  facts({2, 0, 0, 1, 8000, 1, 0, INFINITY, 0}, "length");
  expect_words(message([&] { probe_apart(source, {}, answering(picture)); }), {"no facts"});
  expect_words(message([&] { load_picture_apart(source, {}, answering(frame)); }), {"no picture"});
  const PartHeader refusal{MediumPart::refusal, 0, 1 << 20};
  expect_words(message([&] { probe_apart(source, {}, answering(std::string(reinterpret_cast<const char*>(&refusal), sizeof refusal))); }), {"part 1 of"});
  const PartHeader words{MediumPart::refusal, 0, 13};
  EXPECT_EQ(message([&] { probe_apart(source, {}, answering(std::string(reinterpret_cast<const char*>(&words), sizeof words) + "medium: \x1b[2Jx")); }),
            "input_reference:  [2Jx");
}

TEST_F(MediaApart, TheProcessGetsTheMediumAndNothingElse) {
  const int secret = open((folder_ + "/secret").c_str(), O_CREAT | O_RDWR, 0600);   // one that somebody forgot to close on exec
  ASSERT_GE(secret, 0);
  setenv("ZT_TEST_SECRET", "abc", 1);
  const std::string script = fmt::format("ls -l /proc/$$/fd > {0}/fds; cat /proc/$$/environ > {0}/environment; cat > {0}/medium", folder_);
  message([&] { probe_apart(MediaSource(bytes_of("the medium"), "m"), {}, shell(script)); });
  unsetenv("ZT_TEST_SECRET"), close(secret);
  const std::string fds = slurp(folder_ + "/fds");
  expect_words(fds, {" 0 -> /memfd:medium", " 1 -> ", " 2 -> /dev/null"});   // the shell adds some of its own
  EXPECT_EQ(fds.find("secret"), std::string::npos) << fds;
  EXPECT_EQ(slurp(folder_ + "/environment"), "");
  EXPECT_EQ(slurp(folder_ + "/medium"), "the medium");
}

TEST_F(MediaApart, CancelEndsTheProcess) {
  const std::string file = folder_ + "/pid";
  std::atomic<bool> cancel{false};
  DecoderProcess process = shell("echo $$ > " + file + ".part; mv " + file + ".part " + file + "; exec sleep 60");
  process.cancel = &cancel;
  std::thread owner([&] {
    for (int i = 0; i < 1000 && !fs::exists(file); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    cancel = true;
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(load_picture_apart(picture_, {}, process), Cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
  owner.join();
  const pid_t pid = std::stoi(slurp(file));
  EXPECT_NE(kill(pid, 0), 0);
  EXPECT_EQ(errno, ESRCH);
  cancel = false;
  EXPECT_TRUE(same(apart_readers(&cancel).picture(picture_), load_picture(picture_)));
}

TEST_F(MediaApart, AMediumThatWantsMoreMemoryIsRefused) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow cannot be limited";
  Picture large{8000, 8000, std::vector<uint8_t>(8000 * 8000 * 3)};
  const auto png = encode_png(large);
  const MediaSource source(png, "large.png");
  DecoderProcess process;
  EXPECT_TRUE(same(load_picture_apart(source, {}, process), large));
  process.memory_bytes = int64_t{300} << 20;
  expect_words(message([&] { load_picture_apart(source, {}, process); }), {"large.png: ", "memory"});
}

// What a confined process tries, by its exit code: the sum of what it could do.
TEST_F(MediaApart, AConfinedProcessCanDoNothingElse) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer wants pipes and files";
  const int open_before = open((folder_ + "/file").c_str(), O_CREAT | O_RDWR, 0600);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int could = 0;
    const bool filtered = confine({int64_t{8} << 30, 60});
    if (open("/dev/null", O_RDONLY) >= 0) could |= 1;
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0) could |= 2;
    signal(SIGXFSZ, SIG_IGN);
    if (write(open_before, "x", 1) == 1) could |= 4;
    if (filtered) {
      if (const pid_t p = fork(); p == 0) _exit(0);
      else if (p > 0) could |= 8;
      if (kill(getppid(), 0) == 0) could |= 16;
      if (mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) could |= 32;
      char* const words[] = {const_cast<char*>("true"), nullptr};
      execve("/bin/true", words, words + 1);
      std::thread([] {}).join();   // threads are needed; it ends here where they are not allowed
    }
    _exit(could);
  }
  close(open_before);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace zt

// The test program stands for zoetrope where it is started as its decoder.
int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "decode-medium") {
    CLI::App app;
    const zt::Command command = zt::decode_medium_command(app);
    app.parse(argc, argv);
    return command.run();
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
