// The whole stack, prompt to MP4 file, warm: one JSON line a run; the peer is bench/peers/stack_diffusers.py.
//   stack_bench MODEL PLAN FRAMES EVALUATIONS RUNS OUT.mp4 "PROMPT" [wait]
// EVALUATIONS 0: the plan's own. With "wait", reads one line from stdin before each run, so that another program can be measured in turn.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <iostream>

#include "media/mp4_writer.h"
#include "pipeline/engine.h"
#include "serve/job.h"

using namespace zt;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Result make_clip(Engine& engine, const Request& request, const std::string& path) {
  std::unique_ptr<Mp4Writer> writer;
  Sink sink;
  sink.begin = [&](const ClipInfo& c) {
    Mp4Options o;
    o.width = static_cast<int>(c.width), o.height = static_cast<int>(c.height), o.fps = c.fps, o.sample_rate = c.sample_rate, o.channels = c.channels;
    o.preset = engine.plan().encoder_preset, o.sound_coder = engine.plan().sound_coder, o.sound_beside = engine.plan().overlap && engine.threads() > 1;
    writer = std::make_unique<Mp4Writer>(path, o);
  };
  sink.frames = [&](const uint8_t* rgb, int64_t n) { writer->write_frames(rgb, n); };
  sink.sound = [&](const std::vector<const float*>& channels, int64_t n) { writer->write_audio(channels.data(), n); };
  Result r = engine.generate(request, sink, {});
  writer->finish();
  return r;
}

int run(int argc, char** argv) {
  if (argc < 8) fail(ErrorKind::request, "usage: stack_bench MODEL PLAN FRAMES EVALUATIONS RUNS OUT.mp4 PROMPT [wait]");
  GenerateOptions o;
  o.prompt = argv[7];
  o.frames = std::atoll(argv[3]);
  const Plan plan = read_plan(argv[2], argv[1]);
  if (const int64_t n = std::atoll(argv[4]) > 0 ? std::atoll(argv[4]) : plan.evaluations; n > 0) o.evaluations = n;   // 0: the plan's own
  o.seed = 2;
  Engine engine(argv[1], plan, default_thread_count());
  const Request request = build_request(o, engine.index());
  make_clip(engine, request, argv[6]);   // loads the weights, first touch of scratch memory
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  for (int i = 0; i < std::atoi(argv[5]); ++i) {
    if (argc > 8 && !std::getline(std::cin, line)) break;
    const double t = now();
    const std::clock_t c = std::clock();
    const Result r = make_clip(engine, request, argv[6]);
    const double total = now() - t;
    Json row{{"program", "zoetrope"}, {"isa", ops_name(engine.ops())}, {"plan", argv[2]}, {"threads", engine.threads()}, {"frames", r.clip.num_frames},
             {"evaluations", r.evaluations}, {"total", total}, {"total_cpu", static_cast<double>(std::clock() - c) / CLOCKS_PER_SEC}};
    for (const StageTime& s : r.stages) {
      std::string name = stage_name(s.stage);
      std::replace(name.begin(), name.end(), ' ', '_');
      row[name] = s.seconds;
    }
    std::printf("%s\n", row.dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& e) {
    std::fprintf(stderr, "stack_bench: %s\n", e.what());
    return exit_code(e.kind);
  }
}
