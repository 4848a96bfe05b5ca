#include "optimizer/doctor.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/threads.h"
#include "models/minimax_h3/layout.h"
#include "optimizer/plan_command.h"

namespace zt {

namespace {

constexpr int64_t kReferenceEvaluations = 49;
constexpr int64_t kPromptRows = 64;

std::string size_text(int64_t bytes) {
  return bytes < (1 << 30) ? fmt::format("{:.0f} MiB", static_cast<double>(bytes) / (1 << 20)) : fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
}

double stated_error(const Plan& plan) {
  if (plan.name == "exact" && plan.measured.is_null()) return 0;
  if (!plan.measured.is_object() || !plan.measured.contains("error") || !plan.measured.at("error").is_object()) return -1;
  double largest = -1;
  for (const char* key : {"latents", "audio_latents", "frames", "sound"})
    if (const Json& e = plan.measured.at("error"); e.contains(key) && e.at(key).is_number()) largest = std::max(largest, e.at(key).get<double>());
  return largest;
}

std::string types_of(const ComponentReport& c) {
  std::string out;
  for (const auto& [type, n] : c.dtypes) out += (out.empty() ? "" : ", ") + type;
  return out;
}

// What the folder itself says: damage, parts that are not there, types that cost something.
void judge_model(const Diagnosis& d, std::vector<Finding>& out) {
  for (const ComponentReport& c : d.model.components)
    for (const std::string& p : c.problems) out.push_back({Finding::Kind::problem, fmt::format("{}: {}", c.name, p)});
  if (d.model.components.empty()) return;
  if (!d.model.index.has_transformer)
    out.push_back({Finding::Kind::lacking, "no transformer: t2va, fl2va and continuations are refused; add the folder transformer"});
  if (!d.model.index.has_transformer_ref)
    out.push_back({Finding::Kind::lacking, "no transformer_ref: requests with references (ref2va) are refused; add that folder if you need them"});
  for (const ComponentReport& c : d.model.components) {
    const bool plain = std::all_of(c.dtypes.begin(), c.dtypes.end(), [](auto& t) { return t.first == "F32" || t.first == "F16" || t.first == "BF16"; });
    if (!plain)
      out.push_back({Finding::Kind::slow, fmt::format("{} is stored as {}: it is widened when it is loaded, so it saves disk, not memory", c.name, types_of(c))});
  }
}

MemoryUse memory_of(const Diagnosis& d, const ModelDims& m, const Plan& plan, const ClipShape& clip) {
  return fit_memory(d.model, plan, d.model.index.has_transformer ? "transformer" : "transformer_ref",   // a clip needs one of them
                    working_bytes(clip.rows(), m.dit.hidden_size, clip.width, clip.height), false, d.usable_bytes);
}

Forecast forecast(const Diagnosis& d, const ModelDims& m, const Plan& plan) {
  Forecast f;
  f.plan = plan;
  f.evaluations = plan.evaluations ? plan.evaluations : kReferenceEvaluations;
  ClipShape clip = d.clip;
  clip.evaluations = f.evaluations;
  f.predicted = predict(m, clip, d.hardware, options_of(plan));
  f.seconds_per_second = f.predicted.total_seconds * h3::kFps / static_cast<double>(clip.frames);
  f.memory = memory_of(d, m, plan, clip);
  if (d.model.components.empty()) f.memory.bytes += static_cast<int64_t>(f.predicted.weight_bytes), f.memory.fits = !d.usable_bytes || f.memory.bytes <= d.usable_bytes;
  f.error = stated_error(plan);
  return f;
}

Json to_json(const Diagnosis& d) {
  Json plans = Json::array(), findings = Json::array();
  for (const Forecast& f : d.plans) {
    Json stages = Json::object();
    for (const StagePrediction& s : f.predicted.stages) stages[s.stage] = s.seconds;
    plans.push_back({{"plan", f.plan.name}, {"evaluations", f.evaluations}, {"seconds", f.predicted.total_seconds}, {"stages", stages},
                     {"seconds_per_second", f.seconds_per_second}, {"memory_bytes", f.memory.bytes}, {"memory_mode", f.memory.mode},
                     {"resident_blocks", f.memory.resident_blocks}, {"streamed_bytes", f.memory.streamed_bytes}, {"fits", f.memory.fits},
                     {"error", f.error < 0 ? Json() : Json(f.error)}});
  }
  for (const Finding& f : d.findings) findings.push_back({{"kind", finding_name(f.kind)}, {"text", f.text}});
  Json out{{"model", d.model.index.folder}, {"sound", d.sound()}, {"findings", findings}};
  if (!d.dims_known) return out;
  out["machine"] = hardware_to_json(d.hardware), out["machine"]["usable_memory_bytes"] = d.usable_bytes;
  out["clip"] = {{"width", d.clip.width}, {"height", d.clip.height}, {"frames", d.clip.frames}, {"seconds", static_cast<double>(d.clip.frames) / h3::kFps}};
  out["plans"] = plans, out["advised"] = d.advised.empty() ? Json() : Json(d.advised);
  return out;
}

void print(const Diagnosis& d) {
  std::string out = fmt::format("{}: {}\n", d.model.index.folder, d.sound() ? "MiniMax-H3, whole" : "does not run as it is, see the problems below");
  for (const ComponentReport& c : d.model.components)
    if (c.tensors) out += fmt::format("  {:<16} {:>13} parameters, {:>9} on disk, {}\n", c.name, c.parameters, size_text(c.file_bytes), types_of(c));
  if (d.dims_known) {
    out += fmt::format("\n{}, {} of memory may be used\n{}x{}, {} frames ({:.2f} s), forecast:\n\n", d.hardware.name, size_text(d.usable_bytes), d.clip.width,
                       d.clip.height, d.clip.frames, static_cast<double>(d.clip.frames) / h3::kFps);
    out += fmt::format("{:<12} {:>11} {:>10} {:>18} {:>10} {:>10}  slowest stage\n", "plan", "evaluations", "seconds", "for each of clip", "memory", "error");
    for (const Forecast& f : d.plans) {
      const auto slowest = std::max_element(f.predicted.stages.begin(), f.predicted.stages.end(), [](auto& a, auto& b) { return a.seconds < b.seconds; });
      out += fmt::format("{:<12} {:>11} {:>10.2f} {:>18.2f} {:>10} {:>10}  {}, {:.0f} %{}\n", f.plan.name, f.evaluations, f.predicted.total_seconds, f.seconds_per_second,
                         size_text(f.memory.bytes), f.error < 0 ? "not stated" : fmt::format("{:.3f}", f.error), slowest->stage,
                         100 * slowest->seconds / f.predicted.total_seconds, f.memory.fits ? f.memory.streamed_bytes ? "; blocks are streamed" : "" : "; does not fit");
    }
    out += d.advised.empty() ? "\nNo plan fits this machine.\n" : fmt::format("\nThe fastest that fits: --plan {}\n", d.advised);
  }
  for (const Finding& f : d.findings) out += fmt::format("{}: {}\n", finding_name(f.kind), f.text);
  std::fputs(out.c_str(), stdout);
}

}  // namespace

const char* finding_name(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::problem: return "problem";
    case Finding::Kind::lacking: return "lacking";
    case Finding::Kind::slow: break;
  }
  return "slow";
}

bool Diagnosis::sound() const {
  return std::none_of(findings.begin(), findings.end(), [](const Finding& f) { return f.kind == Finding::Kind::problem; });
}

std::vector<Finding> judge(const std::vector<Forecast>& plans, const Hardware& h, int64_t usable) {
  std::vector<Finding> out;
  bool any = false, real_time = false;
  for (const Forecast& f : plans) {
    any |= f.memory.fits, real_time |= f.memory.fits && f.seconds_per_second <= 1;
    if (f.memory.fits && f.memory.streamed_bytes)
      out.push_back({Finding::Kind::slow, fmt::format("plan {}: {}; the seconds foreseen leave that reading out", f.plan.name, memory_text(f.memory))});
    if (!f.memory.fits)
      out.push_back({Finding::Kind::slow, fmt::format("plan {} needs about {}, {} may be used: it does not fit; take a smaller --size or another machine", f.plan.name,
                                                      size_text(f.memory.bytes), size_text(usable))});
  }
  if (any && !real_time)
    out.push_back({Finding::Kind::slow, "no plan makes this clip as fast as it plays here: live channels will wait; take a plan of fewer evaluations, a smaller "
                                        "--size or another machine"});
  const auto narrow = h.rates.find("bf16"), wide = h.rates.find("bf16x3");
  if (narrow != h.rates.end() && wide != h.rates.end() && narrow->second.gemm < 1.2 * wide->second.gemm)
    out.push_back({Finding::Kind::slow, fmt::format("no bf16 units: bf16 products reach {:.3f} TFLOP/s, those of plan exact {:.3f}; plan fast gains little",
                                                    narrow->second.gemm, wide->second.gemm)});
  return out;
}

Diagnosis diagnose(const DoctorOptions& o) {
  check_range("--frames", o.frames, 5, 100000);
  check_range("--threads", o.threads, 0, 256);
  Diagnosis d;
  check_range("--memory", o.memory_mib, -1, 1 << 30);
  d.usable_bytes = o.memory_mib < 0 ? usable_bytes() : o.memory_mib << 20;
  try {
    d.model = inspect_model(o.model, o.verify);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::model) throw;
    d.findings.push_back({Finding::Kind::problem, e.what()});
  }
  d.model.index.folder = o.model;
  judge_model(d, d.findings);
  ModelDims m;
  try {
    m = read_model_dims(o.model);
  } catch (const Error& e) {
    if (d.sound()) d.findings.push_back({Finding::Kind::problem, e.what()});
    return d;
  }
  d.dims_known = true;
  d.clip.frames = o.frames, d.clip.text_rows = kPromptRows;
  set_size(o.model, o.size, m, d.clip);
  d.clip = resolve_clip(m, d.clip);
  std::vector<Plan> plans{exact_plan(), fast_plan()};
  for (const std::string& name : shipped_plans(o.model)) {
    try {
      Plan p = read_plan(name, o.model);
      p.name = name;                                                    // what --plan takes
      if (name == "exact" || name == "fast") plans[name == "fast"] = p;   // a model's own comes first, as for a request
      else plans.push_back(p);
    } catch (const Error& e) {
      d.findings.push_back({Finding::Kind::lacking, fmt::format("plan {} cannot be used: {}", name, e.what())});
    }
  }
  if (memory_of(d, m, plans[1], d.clip).streamed_bytes)   // plan fast does not stay whole: those that are made for it
    for (Plan& p : compact_plans()) plans.push_back(std::move(p));
  std::set<Compute> kinds;
  for (const Plan& p : plans) kinds.insert({p.text_encoder, p.denoiser, p.video_decoder, p.audio_codec});
  d.hardware = measure_hardware(m, d.clip, o.threads ? static_cast<int>(o.threads) : default_thread_count(), kinds);
  for (const Plan& p : plans) d.plans.push_back(forecast(d, m, p));
  std::stable_sort(d.plans.begin(), d.plans.end(), [](auto& a, auto& b) { return a.predicted.total_seconds < b.predicted.total_seconds; });
  const auto best = std::find_if(d.plans.begin(), d.plans.end(), [](const Forecast& f) { return f.memory.fits; });
  if (best != d.plans.end()) d.advised = best->plan.name;
  for (Finding& f : judge(d.plans, d.hardware, d.usable_bytes)) d.findings.push_back(std::move(f));
  return d;
}

int run_doctor_command(const DoctorOptions& o) {
  const Diagnosis d = diagnose(o);
  if (o.json) std::fputs((to_json(d).dump(1, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), stdout);
  else print(d);
  return d.sound() ? 0 : exit_code(ErrorKind::model);
}

}  // namespace zt
