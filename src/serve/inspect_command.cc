// zoetrope inspect: what a model folder is.
#include <cstdio>
#include <iostream>

#include "pipeline/conditions.h"
#include "pipeline/memory.h"
#include "serve/commands.h"
#include "serve/job.h"

namespace zt {

namespace {

struct InspectOptions {
  std::string model;
  bool json = false, verify = false;
  int64_t memory_mib = -1;
};

// How the model stays in memory for the clip that `generate` makes unless it is told otherwise.
struct MemoryStory {
  int64_t limit;
  Geometry clip;
  std::vector<std::pair<std::string, MemoryUse>> plans;
};

MemoryStory memory_story(const ModelReport& r, const InspectOptions& o) {
  Request request;
  request.config = r.index.config;
  MemoryStory s{o.memory_mib < 0 ? usable_bytes() : o.memory_mib << 20, resolve_geometry(request, r.index.canvas_multiple()), {}};
  std::vector<Plan> plans{exact_plan(), fast_plan()};
  for (Plan& p : compact_plans()) plans.push_back(std::move(p));
  for (const Plan& plan : plans) {
    if (s.plans.size() > 1 && s.plans.back().second.fits && !s.plans.back().second.streamed_bytes) break;   // smaller ones are for those whom nothing else fits
    s.plans.emplace_back(plan.name, fit_request(r, plan, r.index.has_transformer ? "transformer" : "transformer_ref", request, s.clip, s.limit));
  }
  return s;
}

Json to_json(const MemoryStory& s) {
  Json plans = Json::object();
  for (const auto& [name, use] : s.plans)
    plans[name] = {{"mode", use.mode}, {"blocks", use.blocks}, {"resident_blocks", use.resident_blocks}, {"bytes", use.bytes}, {"streamed_bytes", use.streamed_bytes},
                   {"fits", use.fits}};
  return {{"limit_bytes", s.limit}, {"width", s.clip.width}, {"height", s.clip.height}, {"frames", s.clip.num_frames}, {"plans", plans}};
}

int64_t memory(const ComponentReport& c, const Plan& plan) { return prepared_bytes(c, compute_of(plan, c.name)); }

Json to_json(const ModelReport& r, const InspectOptions& o) {
  Json components = Json::array();
  for (const ComponentReport& c : r.components) {
    Json dims = Json::object();
    for (auto& [k, v] : c.dims) dims[k] = v;
    components.push_back({{"component", c.name},
                          {"dims", dims},
                          {"files", c.files},
                          {"tensors", c.tensors},
                          {"parameters", c.parameters},
                          {"unused_parameters", c.dead_parameters},
                          {"file_bytes", c.file_bytes},
                          {"dtypes", c.dtypes},
                          {"memory_bytes", {{"exact", memory(c, exact_plan())}, {"fast", memory(c, fast_plan())}}},
                          {"problems", c.problems}});
  }
  const h3::PipelineConfig& c = r.index.config;
  Json out{{"model", r.index.folder},
           {"architecture", "MiniMaxH3ModularPipeline"},
           {"config",
            {{"canvas_short_edge", c.canvas_short_edge},
             {"canvas_max_pixels", c.canvas_max_pixels},
             {"reference_image_short_edge", c.reference_image_short_edge},
             {"min_duration_s", c.min_duration_s},
             {"max_duration_s", c.max_duration_s},
             {"text_encoder_layer", c.text_encoder_layer},
             {"keyframe_encode_seed", c.keyframe_encode_seed},
             {"keyframe_noise_aug", c.keyframe_noise_aug},
             {"video_shift", r.index.video_shift},
             {"audio_shift", r.index.audio_shift}}},
           {"components", components},
           {"memory", to_json(memory_story(r, o))},
           {"sound", r.sound()}};
  if (o.verify) out["tensors_verified"] = r.tensors_checked, out["model_hash"] = model_hash(r.index.folder);
  return out;
}

void print(const ModelReport& r, const InspectOptions& o) {
  std::string text = fmt::format("{}: MiniMax-H3, diffusers layout\n\n{:<16} {:>6} {:>8} {:>15} {:>12} {:>12} {:>12}  dtypes\n", r.index.folder, "component",
                                 "files", "tensors", "parameters", "on disk", "exact", "fast");
  int64_t parameters = 0, disk = 0, exact = 0, fast = 0;
  auto mib = [](int64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 1048576); };
  for (const ComponentReport& c : r.components) {
    std::string types;
    for (auto& [t, n] : c.dtypes) types += fmt::format("{}{} x{}", types.empty() ? "" : ", ", t, n);
    if (c.tensors)
      text += fmt::format("{:<16} {:>6} {:>8} {:>15} {:>12} {:>12} {:>12}  {}\n", c.name, c.files, c.tensors, c.parameters, mib(c.file_bytes),
                          mib(memory(c, exact_plan())), mib(memory(c, fast_plan())), types);
    parameters += c.parameters, disk += c.file_bytes, exact += memory(c, exact_plan()), fast += memory(c, fast_plan());
  }
  text += fmt::format("{:<16} {:>6} {:>8} {:>15} {:>12} {:>12} {:>12}  (memory of prepared weights by plan)\n\n", "all", "", "", parameters, mib(disk),
                      mib(exact), mib(fast));
  const MemoryStory story = memory_story(r, o);
  text += fmt::format("memory for {}x{}, {} frames{}:\n", story.clip.width, story.clip.height, story.clip.num_frames,
                      story.limit ? fmt::format(", of {} that may be used", mib(story.limit)) : "");
  for (const auto& [name, use] : story.plans)
    text += fmt::format("  {:<11} {:<9} {}{}{}\n", name, use.mode, mib(use.bytes), use.fits ? "" : ", which does not fit",
                        use.streamed_bytes ? fmt::format("; {} of {} blocks stay, the others are read from disk in every evaluation ({})", use.resident_blocks,
                                                         use.blocks, mib(use.streamed_bytes))
                                           : "");
  text += "\n";
  for (const ComponentReport& c : r.components) {
    text += fmt::format("{}:", c.name);
    for (auto& [k, v] : c.dims) text += fmt::format(" {} {},", k, v);
    if (text.back() == ',') text.pop_back();
    text += "\n";
  }
  for (const ComponentReport& c : r.components)
    for (const std::string& p : c.problems) text += fmt::format("PROBLEM in {}: {}\n", c.name, p);
  if (o.verify) text += fmt::format("{} tensors verified: {}\n", r.tensors_checked, r.sound() ? "all sound" : "problems found");
  std::fputs(text.c_str(), stdout);
}

}  // namespace

Command inspect_command(CLI::App& root) {
  auto o = std::make_shared<InspectOptions>();
  CLI::App* app = root.add_subcommand("inspect", "Print what a model folder holds, and check it");
  app->add_option("model", o->model, "model folder (default: the h3-nano that comes with the program)")->type_name("DIR");
  app->add_option("--memory", o->memory_mib, "MiB that may be used (default: nine tenths of the machine's or its control group's); 0: no limit")
      ->type_name("MIB")->check(CLI::Range(0, 1 << 30));
  app->add_flag("--json", o->json, "print one JSON document");
  app->add_flag("--verify", o->verify, "read every tensor: shape, type, NaN, scale, SHA-256 where an index states one");
  return {app, [o] {
            return report_errors([&] {
              ModelReport r = inspect_model(resolve_model_folder(o->model), o->verify);
              if (o->json) std::cout << to_json(r, *o).dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
              else print(r, *o);
              return r.sound() ? 0 : exit_code(ErrorKind::model);
            });
          }};
}

}  // namespace zt
