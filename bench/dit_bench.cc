// Seconds of one evaluation of the denoiser on given weights, one JSON line a run; the peer is bench/peers/dit_diffusers.py.
//   dit_bench MODEL PLAN FRAMES WIDTHxHEIGHT RUNS [wait]
// PLAN is fp32 (exact), bf16 (fast), or what zoetrope's --plan takes. 64 rows of text, noise of PyTorch's seeds 1 and 7, the third of
// four evaluations (two distinct noise levels). With "wait", reads one line from stdin before each run, so that another program can
// be measured in turn.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iostream>

#include "base/rng.h"
#include "models/minimax_h3/dit.h"
#include "models/minimax_h3/layout.h"
#include "nn/plan.h"

using namespace zt;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double rms(const Tensor& t) {
  double sum = 0;
  for (int64_t i = 0; i < t.count(); ++i) sum += static_cast<double>(t.data()[i]) * t.data()[i];
  return std::sqrt(sum / static_cast<double>(t.count()));
}

int run(int argc, char** argv) {
  if (argc < 6) fail(ErrorKind::request, "usage: dit_bench MODEL fp32|bf16|PLAN FRAMES WIDTHxHEIGHT RUNS [wait]");
  const std::string model = argv[1], plan_name = argv[2];
  const Plan plan = plan_name == "fp32" ? exact_plan() : plan_name == "bf16" ? fast_plan() : read_plan(plan_name);
  const int64_t frames = std::atoll(argv[3]);
  int width = 0, height = 0;
  if (std::sscanf(argv[4], "%dx%d", &width, &height) != 2) fail(ErrorKind::request, "size is {}, wanted WIDTHxHEIGHT", argv[4]);
  Threads threads(default_thread_count());
  Arena arena;
  Exec exec{threads, select_ops(), arena};
  Ctx ctx{exec, {}};
  const h3::DitConfig config = h3::read_dit_config(model + "/transformer", open_checkpoint(model + "/transformer"));
  const auto dit = h3::load_dit(exec.ops, threads, model + "/transformer", {.compute = plan.denoiser});

  h3::LayoutRequest request;
  request.text_token_tags.assign(64, h3::kTextTag);
  request.target = {h3::video_latent_frames(frames), height / 16, width / 16};
  request.target_audio_latents = h3::audio_latents(frames);
  const PackedLayout layout = h3::build_layout(request);
  Tensor video({static_cast<int64_t>(layout.video_indices.size()), dit->video_row_width()});
  Tensor audio({static_cast<int64_t>(layout.audio_indices.size()), dit->audio_row_width()});
  Tensor text({64, config.text_dim}), v(video.shape()), w(audio.shape());
  TorchGenerator noise(1);
  noise.randn({video.data(), static_cast<size_t>(video.count())});
  noise.randn({audio.data(), static_cast<size_t>(audio.count())});
  TorchGenerator(7).randn({text.data(), static_cast<size_t>(text.count())});
  const auto prepared = dit->prepare(ctx, layout, text.mat());
  const h3::RowTimesteps rt = h3::row_timesteps(layout, 1.0f - 12.0f / 13.0f, 0.25f, 0.999);
  auto evaluate = [&] { dit->step(ctx, *prepared, rt.timestep, rt.timestep_indices, video.mat(), audio.mat(), v.mat(), w.mat()); };
  evaluate();   // first touch of scratch memory
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  for (int i = 0; i < std::atoi(argv[5]); ++i) {
    if (argc > 6 && !std::getline(std::cin, line)) break;
    const double t = now();
    const std::clock_t c = std::clock();
    evaluate();
    std::printf("{\"program\": \"zoetrope\", \"isa\": \"%s\", \"plan\": \"%s\", \"threads\": %d, \"frames\": %lld, \"size\": \"%s\", \"rows\": %lld, "
                "\"step\": %.5f, \"step_cpu\": %.5f, \"rms\": [%.5f, %.5f], \"scratch_mib\": %.1f}\n",
                ops_name(exec.ops), argv[2], threads.count(), static_cast<long long>(frames), argv[4], static_cast<long long>(layout.rows()), now() - t,
                static_cast<double>(std::clock() - c) / CLOCKS_PER_SEC, rms(v), rms(w), static_cast<double>(arena.peak_bytes()) / (1 << 20));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& e) {
    std::fprintf(stderr, "dit_bench: %s\n", e.what());
    return exit_code(e.kind);
  }
}
