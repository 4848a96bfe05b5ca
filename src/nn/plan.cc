#include "nn/plan.h"

#include <filesystem>

#include "base/error.h"

namespace zt {

namespace {

struct Section {
  const char* name;
  Compute Plan::*field;
  bool narrow_allowed;   // types other than f32
};
constexpr Section kSections[] = {{"text_encoder", &Plan::text_encoder, true},
                                 {"denoiser", &Plan::denoiser, true},
                                 {"video_encoder", &Plan::video_encoder, false},
                                 {"video_decoder", &Plan::video_decoder, true},
                                 {"audio_codec", &Plan::audio_codec, false}};

void read_section(const JsonView& j, const Section& s, Plan& plan) {
  const std::string compute = j.text("compute", "f32");
  Compute type{};
  if (!compute_from_name(compute, type)) fail(ErrorKind::request, "{}: compute is \"{}\", wanted {}", j.origin(), compute, compute_names());
  if (type != Compute::f32 && !s.narrow_allowed) fail(ErrorKind::request, "{}: compute is \"{}\", but this part runs in f32 only", j.origin(), compute);
  plan.*s.field = type;
  for (auto& [key, value] : j.json().items())
    if (key != "compute") fail(ErrorKind::request, "{}: unknown key \"{}\"; known is compute", j.origin(), key);
}

}  // namespace

Plan exact_plan() { return {}; }

Plan fast_plan() {
  Plan p;
  p.name = "fast";
  p.denoiser = p.video_decoder = Compute::bf16;
  p.text_encoder = Compute::bf16x2;   // prompt_embeds steer all that follows, and are a hundredth of the work
  return p;
}

Plan read_plan(const std::string& name) {
  if (name == "exact") return exact_plan();
  if (name == "fast") return fast_plan();
  if (!std::filesystem::exists(name)) fail(ErrorKind::request, "--plan {}: no such plan or file; give exact, fast or the path of a plan file", name);
  Plan plan;
  try {
    Json json = read_json(name, 1 << 20);
    JsonView j(json, name);
    plan.name = j.text("name", std::filesystem::path(name).stem().string());
    for (auto& [key, value] : json.items()) {
      bool known = key == "name";
      for (const Section& s : kSections)
        if (key == s.name) read_section(j.child(key), s, plan), known = true;
      if (!known) fail(ErrorKind::request, "{}: unknown section \"{}\"", name, key);
    }
  } catch (const Error& e) {
    throw Error(ErrorKind::request, e.what());
  }
  return plan;
}

Json plan_to_json(const Plan& plan) {
  Json j{{"name", plan.name}};
  for (const Section& s : kSections) j[s.name] = {{"compute", compute_name(plan.*s.field)}};
  return j;
}

}  // namespace zt
