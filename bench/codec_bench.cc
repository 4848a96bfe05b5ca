// Seconds of the codecs on given weights, one JSON line a run; the peer is bench/peers/bench_diffusers.py.
//   codec_bench MODEL fp32|bf16 FRAMES WIDTHxHEIGHT RUNS [video,audio,encode] [wait]
// With "wait", reads one line from stdin before each run, so that another program can be measured in turn.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iostream>

#include "base/rng.h"
#include "models/minimax_h3/audio_vae.h"
#include "models/minimax_h3/video_vae.h"

using namespace zt;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Tensor noise(Shape shape, uint64_t seed) {
  Tensor t(std::move(shape));
  TorchGenerator(seed).randn({t.data(), static_cast<size_t>(t.count())});
  return t;
}

int run(int argc, char** argv) {
  if (argc < 6) fail(ErrorKind::request, "usage: codec_bench MODEL fp32|bf16 FRAMES WIDTHxHEIGHT RUNS [video,audio,encode] [wait]");
  const std::string model = argv[1], what = argc > 6 ? argv[6] : "video,audio";
  const Compute compute = std::strcmp(argv[2], "bf16") == 0 ? Compute::bf16 : Compute::f32;
  const int64_t frames = std::atoll(argv[3]);
  int width = 0, height = 0;
  if (std::sscanf(argv[4], "%dx%d", &width, &height) != 2) fail(ErrorKind::request, "size is {}, wanted WIDTHxHEIGHT", argv[4]);
  Threads threads(default_thread_count());
  Arena arena;
  Exec exec{threads, select_ops(), arena};
  Ctx ctx{exec, {}};
  const auto video = h3::load_video_vae(exec.ops, model + "/vae", compute, true);
  const auto audio = h3::load_audio_vae(exec.ops, model + "/audio_vae", false);
  Picture picture{width, height, std::vector<uint8_t>(static_cast<size_t>(width * height * 3), 100)};
  for (size_t i = 0; i < picture.rgb.size(); ++i) picture.rgb[i] = static_cast<uint8_t>(i * 2654435761u >> 24);

  auto decode_video = [&] {
    const auto clip_latents = (frames - 5) / 17 * 5 + 2;
    auto stream = video->decode(noise({video->latent_channels(), clip_latents, height / 16, width / 16}, 1));
    FrameChunk chunk;
    int64_t n = 0;
    while (stream->next(ctx, chunk)) n += chunk.count;
    if (n != frames) fail(ErrorKind::internal, "{} frames came, wanted {}", n, frames);
  };
  auto decode_audio = [&] {
    auto stream = audio->decode(noise({2, audio->latent_channels(), (frames * 40 + 12) / 24}, 2));
    SoundChunk chunk;
    while (stream->next(ctx, chunk)) {}
  };
  auto encode = [&] { video->encode(ctx, std::span<const Picture>(&picture, 1)); };
  // Wall time, and processor time of all threads, which a busy machine moves less.
  auto timed = [&](const char* name, auto&& body) {
    const double t = now();
    const std::clock_t c = std::clock();
    body();
    std::printf(", \"%s\": %.4f, \"%s_cpu\": %.4f", name, now() - t, name, static_cast<double>(std::clock() - c) / CLOCKS_PER_SEC);
  };
  auto wanted = [&](const char* name) { return what.find(name) != std::string::npos; };
  if (wanted("video")) decode_video();   // first touch of scratch memory
  if (wanted("audio")) decode_audio();
  if (wanted("encode")) encode();
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  for (int i = 0; i < std::atoi(argv[5]); ++i) {
    if (argc > 7 && !std::getline(std::cin, line)) break;
    std::printf("{\"program\": \"zoetrope\", \"isa\": \"%s\", \"dtype\": \"%s\", \"threads\": %d, \"frames\": %lld, \"size\": \"%s\"", ops_name(exec.ops),
                argv[2], threads.count(), static_cast<long long>(frames), argv[4]);
    if (wanted("video")) timed("video", decode_video);
    if (wanted("audio")) timed("audio", decode_audio);
    if (wanted("encode")) timed("encode", encode);
    std::printf(", \"scratch_mib\": %.1f}\n", static_cast<double>(arena.peak_bytes()) / (1 << 20));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& e) {
    std::fprintf(stderr, "codec_bench: %s\n", e.what());
    return exit_code(e.kind);
  }
}
