#include "optimizer/plan_command.h"

#include <cstdio>
#include <filesystem>

#include "models/minimax_h3/layout.h"
#include "models/minimax_h3/model_index.h"
#include "nn/plan.h"

namespace zt {

namespace {

Json to_json(const PlanCommandOptions& o, const ClipShape& c, const Hardware& h, const PredictOptions& po, const Prediction& p, const ModelDims& m) {
  Json stages = Json::array();
  for (const StagePrediction& s : p.stages)
    stages.push_back({{"stage", s.stage}, {"seconds", s.seconds}, {"runs", s.runs}, {"flop", s.flop}, {"bound", s.bound}, {"compute_seconds", s.compute_seconds},
                      {"memory_seconds", s.memory_seconds}, {"stream_seconds", s.stream_seconds}, {"link_seconds", s.link_seconds},
                      {"launch_seconds", s.launch_seconds}, {"link_bytes", s.link_bytes}});
  const StageWork d = denoise_work(m, c);
  return {{"model", o.model},
          {"hardware", hardware_to_json(h)},
          {"ranks", po.ranks},
          {"stacks", {{"text", po.text}, {"denoise", po.denoiser}, {"video decode", po.video}, {"audio decode", po.audio}}},
          {"clip", {{"width", c.width}, {"height", c.height}, {"frames", c.frames}, {"seconds", static_cast<double>(c.frames) / h3::kFps},
                    {"rows", c.rows()}, {"video_rows", c.video_rows}, {"audio_rows", c.audio_rows}, {"text_rows", c.text_rows}, {"evaluations", c.evaluations}}},
          {"evaluation", {{"gemm_flop", d.gemm}, {"attention_flop", d.attention}, {"adaln_flop", d.adaln}, {"flop", d.total()}}},
          {"stages", stages},
          {"generation_seconds", p.generation_seconds},
          {"total_seconds", p.total_seconds},
          {"memory", {{"weight_bytes", p.weight_bytes}, {"activation_bytes", p.activation_bytes}, {"fits", p.fits}}}};
}

std::string flop_text(double f) {
  const char* const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  size_t u = 0;
  while (f >= 1000 && u + 1 < std::size(units)) f /= 1000, ++u;
  return fmt::format("{:.2f} {}", f, units[u]);
}

std::string time_text(double s) { return s >= 1 ? fmt::format("{:.2f} s", s) : fmt::format("{:.2f} ms", s * 1e3); }

void print(const ClipShape& c, const Hardware& h, const PredictOptions& po, const Prediction& p) {
  std::string out = fmt::format("{} x {}; {}x{}, {} frames ({:.2f} s), {} rows, {} evaluations\n\n{:<14} {:>10} {:>6} {:>14} {:>9} {:>11}\n", po.ranks, h.name, c.width,
                                c.height, c.frames, static_cast<double>(c.frames) / h3::kFps, c.rows(), c.evaluations, "stage", "predicted", "runs", "work", "bound",
                                "sent a rank");
  for (const StagePrediction& s : p.stages)
    out += fmt::format("{:<14} {:>10} {:>6} {:>14} {:>9} {:>11}\n", s.stage, time_text(s.seconds), s.runs, s.flop > 0 ? flop_text(s.flop) : "", s.bound,
                       s.link_bytes > 0 && po.ranks > 1 ? fmt::format("{:.2f} GB", s.link_bytes / 1e9) : "");
  out += fmt::format("{:<14} {:>10}   {:.2f} s of work for each second of clip\n\nmemory of a rank: weights {:.2f} GB, activations {:.2f} GB{}\n", "all",
                     time_text(p.total_seconds), p.total_seconds * h3::kFps / static_cast<double>(c.frames), p.weight_bytes / 1e9, p.activation_bytes / 1e9,
                     p.fits ? "" : fmt::format("; {:.1f} GB do not hold them: weights stream in", h.memory_bytes / 1e9));
  std::fputs(out.c_str(), stdout);
}

}  // namespace

void check_range(const char* option, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) fail(ErrorKind::request, "{} is {}; wanted {} to {}", option, value, low, high);
}

void set_size(const std::string& folder, const std::string& size, const ModelDims& m, ClipShape& c) {
  if (!size.empty()) {
    int end = 0;
    long long w = 0, h = 0;
    if (std::sscanf(size.c_str(), "%lldx%lld%n", &w, &h, &end) != 2 || end != static_cast<int>(size.size()) || w < 1 || h < 1 || w > 65536 || h > 65536)
      fail(ErrorKind::request, "--size is \"{}\", wanted WIDTHxHEIGHT, up to 65536 each", size);
    c.width = w, c.height = h;
    return;
  }
  h3::PipelineConfig config;
  const std::string index = folder + "/modular_model_index.json";
  if (std::filesystem::exists(index)) {
    const Json json = read_json(index);
    h3::apply_config(JsonView(json, index), config, false);
  }
  const h3::Canvas canvas = h3::resolve_canvas(16, 9, {m.video.spatial_ratio() * m.dit.patch_w, config.canvas_short_edge, config.canvas_max_pixels});
  c.width = canvas.width, c.height = canvas.height;
}

int run_plan_command(const PlanCommandOptions& o) {
  check_range("--ranks", o.ranks, 1, 8);
  check_range("--frames", o.frames, 5, 100000);
  check_range("--evaluations", o.evaluations, 1, 100000);
  check_range("--text-rows", o.text_rows, 1, 1000000);
  check_range("--threads", o.threads, 0, 256);
  const ModelDims m = read_model_dims(o.model);
  ClipShape clip;
  clip.frames = o.frames, clip.evaluations = o.evaluations, clip.text_rows = o.text_rows;
  set_size(o.model, o.size, m, clip);
  clip = resolve_clip(m, clip);
  const Plan plan = read_plan(o.plan, o.model);
  PredictOptions po = options_of(plan);
  Hardware h;
  if (o.hardware.empty()) {
    const int threads = o.threads ? static_cast<int>(o.threads) : default_thread_count();
    h = measure_hardware(m, clip, threads, {plan.text_encoder, plan.denoiser, plan.video_decoder, plan.audio_codec});
  } else {
    h = read_hardware(o.hardware);
  }
  po.ranks = static_cast<int>(o.ranks);
  if (!o.stack.empty() || h.kind == "gpu") po.text = po.denoiser = po.video = po.audio = o.stack.empty() ? "tuned" : o.stack;
  const Prediction p = predict(m, clip, h, po);
  if (o.json) std::fputs((to_json(o, clip, h, po, p, m).dump(1, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), stdout);
  else print(clip, h, po, p);
  return 0;
}

}  // namespace zt
