#include "nn/plan.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>

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

void refuse_others(const JsonView& j, std::initializer_list<const char*> known) {
  for (auto& [key, value] : j.json().items())
    if (std::none_of(known.begin(), known.end(), [&name = key](const char* k) { return name == k; }))
      fail(ErrorKind::request, "{}: unknown key \"{}\"; known: {}", j.origin(), key, fmt::join(known, ", "));
}

void read_section(const JsonView& j, const Section& s, Plan& plan) {
  const std::string compute = j.text("compute", "f32");
  Compute type{};
  if (!compute_from_name(compute, type)) fail(ErrorKind::request, "{}: compute is \"{}\", wanted {}", j.origin(), compute, compute_names());
  if (type != Compute::f32 && !s.narrow_allowed) fail(ErrorKind::request, "{}: compute is \"{}\", but this part runs in f32 only", j.origin(), compute);
  plan.*s.field = type;
  if (s.field == &Plan::denoiser) {
    plan.adaln_tables = j.boolean("adaln_tables", plan.adaln_tables);
    plan.attention_mass = j.number("attention_mass", 0.01, 1, plan.attention_mass);
    refuse_others(j, {"compute", "adaln_tables", "attention_mass"});
  } else {
    refuse_others(j, {"compute"});
  }
}

void read_sampler(const JsonView& j, Plan& plan) {
  plan.evaluations = j.integer("evaluations", 0, 10000, 0);
  plan.reuse.video = j.number("reuse_video", 0, 10, 0), plan.reuse.sound = j.number("reuse_sound", 0, 10, 0);
  plan.reuse.most = j.integer("reuse_most", 1, 1000, 1);
  refuse_others(j, {"evaluations", "reuse_video", "reuse_sound", "reuse_most"});
}

void read_encoder(const JsonView& j, Plan& plan) {
  plan.encoder_preset = j.text("preset", plan.encoder_preset);
  plan.sound_coder = j.text("sound_coder", plan.sound_coder);
  if (plan.sound_coder != "twoloop" && plan.sound_coder != "fast")
    fail(ErrorKind::request, "{}: sound_coder is \"{}\", wanted twoloop or fast", j.origin(), plan.sound_coder);
  refuse_others(j, {"preset", "sound_coder"});
}

Plan parse_plan(const Json& json, const std::string& path) {
  Plan plan;
  JsonView j(json, path);
  plan.name = j.text("name", std::filesystem::path(path).stem().string());
  for (auto& [key, value] : json.items()) {
    bool known = key == "name" || key == "measured";
    for (const Section& s : kSections)
      if (key == s.name) read_section(j.child(key), s, plan), known = true;
    if (key == "stages") {
      plan.overlap = j.child(key).boolean("overlap", plan.overlap), known = true;
      refuse_others(j.child(key), {"overlap"});
    }
    if (key == "sampler") read_sampler(j.child(key), plan), known = true;
    if (key == "encoder") read_encoder(j.child(key), plan), known = true;
    if (!known) fail(ErrorKind::request, "{}: unknown section \"{}\"", path, key);
  }
  if (json.contains("measured")) plan.measured = json.at("measured");
  return plan;
}

// "error:0.05": of the plans that come with the model the fastest whose measured error stays below; exact if none does.
Plan plan_within(const std::string& text, const std::string& model_folder) {
  char* end = nullptr;
  const double budget = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !(budget >= 0)) fail(ErrorKind::request, "--plan error:{}: wanted a number from 0 up, such as error:0.05", text);
  Plan best;
  double least = 0;
  for (const std::string& name : shipped_plans(model_folder)) {
    const std::string path = model_folder + "/plans/" + name + ".json";
    const Plan p = parse_plan(read_json(path, 1 << 20), path);
    if (p.measured.is_null()) continue;
    const JsonView measured(p.measured, path + ": measured"), error = measured.child("error");
    const double seconds = measured.number("seconds_per_second", 0, 1e12);
    double largest = std::max(error.number("latents", 0, 1e12), error.number("audio_latents", 0, 1e12));
    for (const char* decoded : {"frames", "sound"}) largest = std::max(largest, error.number(decoded, 0, 1e12, 0));
    if (largest > budget) continue;
    if (least == 0 || seconds < least) least = seconds, best = p;
  }
  return best;
}

}  // namespace

std::vector<std::string> shipped_plans(const std::string& model_folder) {
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto& f : std::filesystem::directory_iterator(model_folder + "/plans", ec))
    if (f.path().extension() == ".json") names.push_back(f.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Plan exact_plan() { return {}; }

Plan fast_plan() {
  Plan p;
  p.name = "fast";
  p.denoiser = p.video_decoder = Compute::bf16;
  p.text_encoder = Compute::bf16x2;   // prompt_embeds steer all that follows, and are a hundredth of the work
  return p;
}

std::vector<Plan> compact_plans() {
  std::vector<Plan> plans;
  for (const Compute c : {Compute::mxint8, Compute::mxfp6, Compute::mxfp4}) {
    Plan& p = plans.emplace_back(fast_plan());
    p.name += fmt::format("-{}", compute_name(c));
    p.denoiser = p.text_encoder = c;
  }
  return plans;
}

Plan read_plan(const std::string& name, const std::string& model_folder) {
  std::string path = name;
  if (name.starts_with("error:")) {
    try {
      return plan_within(name.substr(6), model_folder);
    } catch (const Error& e) {
      throw Error(ErrorKind::request, e.what());
    }
  }
  if (!model_folder.empty() && !name.empty() && name.find('/') == std::string::npos) {
    const std::string shipped = model_folder + "/plans/" + name + ".json";
    std::error_code ec;
    if (std::filesystem::exists(shipped, ec)) path = shipped;
  }
  if (path == "exact") return exact_plan();
  if (path == "fast") return fast_plan();
  for (Plan& p : compact_plans())
    if (path == p.name) return std::move(p);
  if (!std::filesystem::exists(path))
    fail(ErrorKind::request,
         "--plan {}: no such plan or file; give exact, fast, fast-mxint8, fast-mxfp6, fast-mxfp4, a plan that comes with the model "
         "(its plans folder) or the path of a plan file",
         name);
  try {
    return parse_plan(read_json(path, 1 << 20), path);
  } catch (const Error& e) {
    throw Error(ErrorKind::request, e.what());
  }
}

Json plan_to_json(const Plan& plan) {
  Json j{{"name", plan.name}};
  for (const Section& s : kSections) j[s.name] = {{"compute", compute_name(plan.*s.field)}};
  j["denoiser"]["adaln_tables"] = plan.adaln_tables, j["denoiser"]["attention_mass"] = plan.attention_mass;
  j["stages"] = {{"overlap", plan.overlap}};
  j["sampler"] = {{"evaluations", plan.evaluations}, {"reuse_video", plan.reuse.video}, {"reuse_sound", plan.reuse.sound}, {"reuse_most", plan.reuse.most}};
  j["encoder"] = {{"preset", plan.encoder_preset}, {"sound_coder", plan.sound_coder}};
  if (!plan.measured.is_null()) j["measured"] = plan.measured;
  return j;
}

}  // namespace zt
