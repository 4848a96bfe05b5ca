#include "serve/options.h"

#include <regex>

#include "base/error.h"

namespace zt {

using O = GenerateOptions;

const std::vector<OptionSpec>& generate_options() {
  static const std::vector<OptionSpec> table = {
      {"--model,-m", "model", "DIR", "model folder in the diffusers layout (default: the h3-nano that comes with the program)", &O::model, false},
      {"--prompt,-p,prompt", "prompt", "TEXT", "what the clip shows and sounds like", &O::prompt, true},
      {"--prompt-file", "prompt_file", "FILE", "the prompt, verbatim, from a file ('-': standard input)", &O::prompt_file, false},
      {"--task", "task", "t2va|fl2va|ref2va", "default: follows from the pictures given", &O::task, true},
      {"--first-frame", "first_frame", "FILE", "picture that the clip starts from (fl2va)", &O::first_frame, true},
      {"--last-frame", "last_frame", "FILE", "picture that the clip ends on (fl2va)", &O::last_frame, true},
      {"--reference", "references", "FILE", "picture, video or sound to follow (ref2va); repeatable, in the order the prompt counts them",
       &O::references, true},
      {"--lora", "lora", "FILE[:S]", "adapter (LoRA) to merge into the transformer, with strength S (default 1); repeatable. A bare name is one of MODEL/loras",
       &O::lora, true},
      {"--extend", "extend", "FILE", "latents of a clip (--latents), or a video, that this one goes on from: it holds both, --seconds and --frames say what is added",
       &O::extend, true},
      {"--size", "size", "WxH", "pixels, multiples of 32 (default: the model's canvas)", &O::size, true},
      {"--short-edge", "short_edge", "PIXELS", "shorter side of the canvas, in place of the model's own", &O::short_edge, true, 32, 16384},
      {"--aspect", "aspect", "W:H", "aspect ratio of the canvas, 1:4 to 4:1 (default 16:9, or the first frame's)", &O::aspect, true},
      {"--seconds", "seconds", "S", "length; aligned up to 17 n + 5 frames at 24 a second", &O::seconds, true, 0.001, 3600},
      {"--frames", "frames", "N", "length in frames, aligned up to 17 n + 5 (default 124)", &O::frames, true, 1, 100000},
      {"--long-video", "long_video", "", "any length: segments that each go on from the end of what was made, for models trained for it (h3-nano)", &O::long_video, true},
      {"--steps", "steps", "N", "grid points of the noise schedule, as the reference counts: N - 1 evaluations (default 50)", &O::steps, true, 2, 1001},
      {"--evaluations", "evaluations", "N", "evaluations of the denoiser: N + 1 grid points", &O::evaluations, true, 1, 1000},
      {"--seed", "seed", "N", "seed of PyTorch's CPU generator (default 0)", &O::seed, true},
      {"--plan", "plan", "NAME|error:Q|FILE",
       "exact: equal to the reference (default); fast: bf16; fast-mxint8, -mxfp6, -mxfp4: for models that do not fit; another that comes with the model; "
       "the fastest within an error; or a plan file",
       &O::plan, true},
      {"--config", "config", "FILE", "JSON of pipeline values over the model's own (canvas limits, durations, encode seed, ...)", &O::config, false},
      {"--noise", "noise", "FILE", "safetensors of draws to use in place of the seed's", &O::noise, false},
      {"--latents", "latents", "FILE", "write the clip's latents as safetensors, for --extend", &O::latents, false},
      {"--trace", "trace", "FILE", "write the run's tensors as safetensors, to hold against the reference", &O::trace, false},
      {"--profile", "profile", "FILE", "write when each stage, evaluation and chunk ran, for ui.perfetto.dev or chrome://tracing", &O::profile, false},
      {"--again", "again", "CLIP", "take the request from the metadata of a clip; other options override it", &O::again, false},
      {"--threads", "threads", "N", "worker threads (default: the cores this process may use)", &O::threads, false, 1, 256},
      {"--memory", "memory", "MIB",
       "MiB that may be used, weights included: of a transformer that does not fit, blocks are read from disk in every evaluation (default: nine tenths of the "
       "machine's or its control group's); 0: no limit", &O::memory, false, 0, 1 << 30},
      {"--output,-o", "output", "FILE", "MP4 to write (default clip.mp4)", &O::output, false},
      {"--json", "json", "", "print one JSON document about the run on standard output", &O::json, false},
      {"--quiet,-q", "quiet", "", "no progress and no table", &O::quiet, false},
  };
  return table;
}

namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

}  // namespace

Json options_to_json(const GenerateOptions& o) {
  Json out = Json::object();
  for (const OptionSpec& spec : generate_options()) {
    if (!spec.describes_clip) continue;
    std::visit(Overload{[&](std::string O::*m) { if (!(o.*m).empty()) out[spec.key] = o.*m; },
                        [&](std::vector<std::string> O::*m) { if (!(o.*m).empty()) out[spec.key] = o.*m; },
                        [&](std::optional<int64_t> O::*m) { if (o.*m) out[spec.key] = *(o.*m); },
                        [&](std::optional<uint64_t> O::*m) { if (o.*m) out[spec.key] = *(o.*m); },
                        [&](std::optional<double> O::*m) { if (o.*m) out[spec.key] = *(o.*m); },
                        [&](bool O::*m) { if (o.*m) out[spec.key] = true; }},
               spec.target);
  }
  return out;
}

void fill_from_json(const Json& json, GenerateOptions& o) {
  const GenerateOptions defaults;
  for (const OptionSpec& spec : generate_options()) {
    auto it = json.find(spec.key);
    if (it == json.end() || !spec.describes_clip) continue;
    try {
      std::visit(Overload{[&](std::string O::*m) { if (o.*m == defaults.*m) o.*m = it->get<std::string>(); },
                          [&](std::vector<std::string> O::*m) { if ((o.*m).empty()) o.*m = it->get<std::vector<std::string>>(); },
                          [&](std::optional<int64_t> O::*m) { if (!(o.*m)) o.*m = it->get<int64_t>(); },
                          [&](std::optional<uint64_t> O::*m) { if (!(o.*m)) o.*m = it->get<uint64_t>(); },
                          [&](std::optional<double> O::*m) { if (!(o.*m)) o.*m = it->get<double>(); },
                          [&](bool O::*m) { o.*m = o.*m || it->get<bool>(); }},
                 spec.target);
    } catch (const nlohmann::json::exception&) {
      fail(ErrorKind::request, "\"{}\" is {}, which is not of the type that option takes", spec.key, it->dump());
    }
  }
}

std::string long_flag(const OptionSpec& spec) {
  const std::string flags = spec.flags;
  return flags.substr(0, flags.find(','));
}

void check_limits(const GenerateOptions& o) {
  for (const OptionSpec& spec : generate_options()) {
    if (spec.low == spec.high) continue;
    auto check = [&](double value, const std::string& text) {
      if (!(value >= spec.low && value <= spec.high))
        fail(ErrorKind::request, "{} is {}; wanted {:g} to {:g}", long_flag(spec), text, spec.low, spec.high);
    };
    std::visit(Overload{[&](std::optional<int64_t> O::*m) { if (o.*m) check(static_cast<double>(*(o.*m)), std::to_string(*(o.*m))); },
                        [&](std::optional<double> O::*m) { if (o.*m) check(*(o.*m), fmt::format("{}", *(o.*m))); },
                        [&](auto) {}},
               spec.target);
  }
}

std::optional<std::pair<int64_t, int64_t>> parse_size(const std::string& text) {
  std::smatch m;
  if (!std::regex_match(text, m, std::regex("([0-9]{1,5})[xX]([0-9]{1,5})"))) return {};
  return std::pair{std::stoll(m[1]), std::stoll(m[2])};
}

std::string options_markdown() {
  std::string out = "| option | value | meaning |\n|---|---|---|\n";
  for (const OptionSpec& s : generate_options()) {
    std::string value = s.value;
    for (size_t i = 0; (i = value.find('|', i)) != std::string::npos; i += 2) value.insert(i, "\\");
    out += fmt::format("| `{}` | {} | {} |\n", s.flags, value, s.help);
  }
  return out;
}

}  // namespace zt
