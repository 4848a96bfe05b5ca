// Options -> Request.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <regex>

#include "formats/safetensors.h"
#include "media/decode.h"
#include "models/minimax_h3/layout.h"
#include "pipeline/channel.h"
#include "pipeline/conditions.h"
#include "serve/job.h"
#include "text/unicode.h"

namespace zt {

namespace {

constexpr size_t kMaxPromptCharacters = 32000;   // as the OpenAI Videos API allows

void exclusive(bool a, const char* a_name, bool b, const char* b_name) {
  if (a && b) fail(ErrorKind::request, "{} and {} say the same thing in two ways; give one of them", a_name, b_name);
}

void check_prompt_bytes(const std::string& text) {
  const size_t nul = text.find('\0');
  if (nul != std::string::npos) fail(ErrorKind::request, "the prompt has a NUL byte at byte {}; wanted text. Remove it", nul);
  const std::string repaired = repair_utf8(text);
  if (repaired == text) return;
  const auto at = std::mismatch(text.begin(), text.end(), repaired.begin(), repaired.end()).first - text.begin();
  fail(ErrorKind::request, "the prompt is not valid UTF-8 at byte {}; save it as UTF-8", at);
}

std::string read_prompt(const GenerateOptions& o) {
  exclusive(!o.prompt.empty(), "--prompt", !o.prompt_file.empty(), "--prompt-file");
  std::string text = o.prompt;
  if (o.prompt_file == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else if (!o.prompt_file.empty()) {
    std::error_code ec;
    if (std::filesystem::is_directory(o.prompt_file, ec)) fail(ErrorKind::request, "--prompt-file {}: is a folder, wanted a text file", o.prompt_file);
    std::ifstream f(o.prompt_file, std::ios::binary);
    if (!f) fail(ErrorKind::request, "--prompt-file {}: cannot be read", o.prompt_file);
    text.resize(kMaxPromptCharacters * 4 + 1);   // one more byte than any allowed prompt has
    f.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(f.gcount()));
  }
  const size_t characters = static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  if (characters > kMaxPromptCharacters)
    fail(ErrorKind::request, "the prompt has {}{} characters; at most {} are taken. Shorten it", text.size() > kMaxPromptCharacters * 4 ? "over " : "",
         characters, kMaxPromptCharacters);
  check_prompt_bytes(text);
  return text;
}

Task choose_task(const GenerateOptions& o) {
  const bool frames = !o.first_frame.empty() || !o.last_frame.empty();
  exclusive(frames, "--first-frame/--last-frame (fl2va)", !o.references.empty(), "--reference (ref2va)");
  if (o.task == "t2va") return Task::t2va;
  if (o.task == "fl2va") return Task::fl2va;
  if (o.task == "ref2va") return Task::ref2va;
  if (!o.task.empty()) fail(ErrorKind::request, "--task is \"{}\"; wanted t2va, fl2va or ref2va", o.task);
  return frames ? Task::fl2va : !o.references.empty() ? Task::ref2va : Task::t2va;
}

void read_size(const GenerateOptions& o, Request& r) {
  exclusive(!o.size.empty(), "--size", o.short_edge.has_value(), "--short-edge");
  exclusive(!o.size.empty(), "--size", !o.aspect.empty(), "--aspect");
  std::smatch m;
  if (!o.size.empty()) {
    const auto size = parse_size(o.size);
    if (!size) fail(ErrorKind::request, "--size is \"{}\"; wanted WIDTHxHEIGHT such as 1344x768", o.size);
    r.width = size->first, r.height = size->second;
  }
  if (o.short_edge) {
    r.short_edge = *o.short_edge;
    // A short edge that is asked for is not capped by the area the model was released at.
    r.config.canvas_max_pixels = std::max(r.config.canvas_max_pixels, 4 * *o.short_edge * *o.short_edge);
  }
  if (!o.aspect.empty() && o.aspect != "auto") {
    if (!std::regex_match(o.aspect, m, std::regex("([0-9]{1,5}(?:\\.[0-9]{1,5})?):([0-9]{1,5}(?:\\.[0-9]{1,5})?)")))
      fail(ErrorKind::request, "--aspect is \"{}\"; wanted W:H such as 16:9", o.aspect);
    const double w = std::stod(m[1]), h = std::stod(m[2]);
    if (!(w > 0) || !(h > 0)) fail(ErrorKind::request, "--aspect is \"{}\"; both sides must be over 0", o.aspect);
    r.aspect_ratio = w / h;
  }
}

void read_length_and_steps(const GenerateOptions& o, Request& r) {
  exclusive(o.seconds.has_value(), "--seconds", o.frames.has_value(), "--frames");
  exclusive(o.steps.has_value(), "--steps", o.evaluations.has_value(), "--evaluations");
  if (o.seconds) r.num_frames = std::max<int64_t>(1, std::llround(*o.seconds * h3::kFps));
  if (o.frames) r.num_frames = *o.frames;
  r.long_video = o.long_video;
  if (o.steps) r.grid_points = *o.steps;
  if (o.evaluations) r.grid_points = *o.evaluations + 1;
}

void read_config_file(const std::string& path, h3::PipelineConfig& config) {
  try {
    Json json = read_json(path, 1 << 20);
    apply_config(JsonView(json, path), config, true);
  } catch (const Error& e) {
    throw Error(ErrorKind::request, std::string("--config ") + e.what());
  }
}

void read_noise_file(const std::string& path, Request& r) {
  try {
    SafetensorsFile file(path);
    for (const NamedView& t : file.tensors()) {
      const bool known = t.name == "noise_video" || t.name == "noise_audio_rows" || t.name.starts_with("condition_noise.") ||
                         t.name.starts_with("condition_posterior_noise.");
      if (!known)
        fail(ErrorKind::request, "{}: tensor {} is not one of noise_video, noise_audio_rows, condition_noise.N, condition_posterior_noise.N", path, t.name);
      if (t.view.dtype != DType::f32) fail(ErrorKind::request, "{}: tensor {} is {}, wanted F32", path, t.name, dtype_name(t.view.dtype));
      Tensor copy(t.view.shape);
      to_float32(t.view, copy.data());
      if (!std::all_of(copy.data(), copy.data() + copy.count(), [](float x) { return std::isfinite(x); }))
        fail(ErrorKind::request, "{}: tensor {} holds NaN or infinity, wanted finite numbers", path, t.name);
      r.noise.emplace(t.name, std::move(copy));
    }
  } catch (const Error& e) {
    throw Error(ErrorKind::request, std::string("--noise ") + e.what());
  }
}

// The clip that is gone on from sets the size, and its frames come before those that are asked for.
void go_on_from(Latents start, const GenerateOptions& o, const h3::ModelIndex& index, Request& r) {
  if (r.task != Task::t2va) fail(ErrorKind::request, "--extend goes on by a prompt alone (task t2va), not by task {}", task_name(r.task));
  exclusive(true, "--extend", !o.size.empty() || o.short_edge || !o.aspect.empty(), "--size, --short-edge or --aspect");
  r.num_frames += frames_of(start);
  r.height = start.video.dim(2) * index.spatial_ratio, r.width = start.video.dim(3) * index.spatial_ratio;
  r.long_video = true;
  r.start = std::move(start);
}

// The same of a video, whose own size is kept where the model can make it.
void go_on_from(Reference medium, const GenerateOptions& o, const h3::ModelIndex& index, Request& r) {
  if (r.task != Task::t2va) fail(ErrorKind::request, "--extend goes on by a prompt alone (task t2va), not by task {}", task_name(r.task));
  exclusive(true, "--extend", !o.size.empty() || o.short_edge || !o.aspect.empty(), "--size, --short-edge or --aspect");
  if (!index.has_transformer_ref)
    fail(ErrorKind::request, "--extend is no .safetensors file; this model takes no videos and sounds (it has no transformer_ref), so its encoders of them cannot be "
                             "relied on. Give the latents of a clip (--latents)");
  Clip* clip = std::get_if<Clip>(&medium);
  if (!clip || clip->frames.empty()) fail(ErrorKind::request, "--extend is no video and no .safetensors file of latents; give one of them");
  const double most = MediaLimits{}.max_seconds, seconds = static_cast<double>(clip->frames.size()) / clip->fps;
  if (!(seconds < most)) fail(ErrorKind::request, "--extend is a video of {:g} s or more; it must be shorter. Cut its beginning off", most);
  const int64_t frames = start_frames(*clip), multiple = index.canvas_multiple(), w = clip->frames[0].width, h = clip->frames[0].height;
  if (frames == 0) fail(ErrorKind::request, "--extend is a video of {:.2f} s; at least 22 frames at 24 a second are needed to go on from", seconds);
  const bool own = w % multiple == 0 && h % multiple == 0 && w * h <= r.config.canvas_max_pixels;
  const h3::Canvas canvas = h3::resolve_canvas(static_cast<double>(w), static_cast<double>(h), {multiple, r.config.canvas_short_edge, r.config.canvas_max_pixels});
  r.width = own ? w : canvas.width, r.height = own ? h : canvas.height;
  r.num_frames += frames;
  r.long_video = true;
  r.start_clip = std::move(*clip);
}

// "name:0.8" -> name, 0.8. A colon that no number follows belongs to the name.
AdapterUse split_adapter(const std::string& text) {
  std::smatch m;
  if (!std::regex_match(text, m, std::regex("(.+):([-+]?[0-9]{1,4}(?:\\.[0-9]{1,9})?)"))) return {text, 1};
  const double s = std::stod(m[2]);
  if (s < -16 || s > 16) fail(ErrorKind::request, "--lora {}: strength {:g}, wanted -16 to 16", text, s);
  return {m[1], s};
}

// The file of that name in FOLDER/loras; empty if there is none, or if the name leads elsewhere.
std::string own_adapter(const std::string& name, const std::string& folder) {
  if (name.empty() || name[0] == '.' || name.find_first_of("/\\") != std::string::npos || name.find('\0') != std::string::npos) return "";
  for (const char* ending : {"", ".safetensors"}) {
    const std::string path = folder + "/loras/" + name + ending;
    std::error_code e;
    if (std::filesystem::is_regular_file(path, e)) return path;
  }
  return "";
}

// What an adapter says of evaluations and shifts; the last that says so counts. The request's own evaluations (`counted`) come first.
void add_adapter(AdapterUse use, const std::string& text, bool counted, Request& r) {
  r.adapters.push_back(std::move(use));
  try {
    const AdapterSchedule s = read_adapter_schedule(r.adapters.back().path);
    if (s.evaluations) r.schedule.evaluations = s.evaluations;
    if (s.video_shift) r.schedule.video_shift = s.video_shift;
    if (s.audio_shift) r.schedule.audio_shift = s.audio_shift;
    if (s.says_distilled && !s.evaluations && !counted)
      r.warnings.push_back(fmt::format("{}: by its name it wants few evaluations, but states no schedule; give --evaluations, or a .json beside it", text));
  } catch (const Error& e) {
    throw Error(ErrorKind::request, std::string("--lora ") + e.what());
  }
  if (r.schedule.evaluations && !counted) r.grid_points = *r.schedule.evaluations + 1;
}

Reference load_reference(const std::string& path) {
  switch (probe(path).kind) {
    case MediaKind::image: return load_picture(path);
    case MediaKind::video: return load_clip(path);
    case MediaKind::sound: return load_sound(path);
  }
  fail(ErrorKind::internal, "{}: a medium of no kind", path);
}

}  // namespace

AdapterUse find_own_adapter(const std::string& text, const std::string& folder) {
  AdapterUse use = split_adapter(text);
  const std::string path = own_adapter(use.path, folder);
  if (path.empty()) fail(ErrorKind::request, "--lora {}: this model has no adapter of that name", text);
  use.path = path;
  return use;
}

void use_own_adapters(const std::vector<std::string>& texts, const std::string& folder, bool counted, Request& request) {
  for (const std::string& text : texts) add_adapter(find_own_adapter(text, folder), text, counted, request);
}

AdapterUse find_adapter(const std::string& text, const std::string& folder) {
  AdapterUse use = split_adapter(text);
  std::error_code e;
  if (const std::string path = own_adapter(use.path, folder); !path.empty()) use.path = path;
  else if (!std::filesystem::is_regular_file(use.path, e)) fail(ErrorKind::request, "--lora {}: no such file, here or in {}/loras", text, folder);
  return use;
}

Request build_request(const GenerateOptions& o, const h3::ModelIndex& index) {
  return build_request(o, index, {[](const std::string& path) { return load_picture(path); }, load_reference, load_latents});
}

Request build_request(const GenerateOptions& o, const h3::ModelIndex& index, const MediaReaders& readers) {
  check_limits(o);
  Request r;
  r.config = index.config;
  if (!o.config.empty()) read_config_file(o.config, r.config);
  r.task = choose_task(o);
  r.prompt = read_prompt(o);
  if (r.prompt.empty() && r.task != Task::fl2va) fail(ErrorKind::request, "the prompt is empty; give --prompt \"...\" or --prompt-file FILE");
  read_size(o, r);
  read_length_and_steps(o, r);
  for (const std::string& text : o.lora) add_adapter(find_adapter(text, index.folder), text, o.steps || o.evaluations, r);
  if (o.seed) r.seed = *o.seed;
  if (!o.first_frame.empty()) r.first_frame = readers.picture(o.first_frame);
  if (!o.last_frame.empty()) r.last_frame = readers.picture(o.last_frame);
  for (const std::string& path : o.references) r.references.push_back(readers.reference(path));
  if (o.extend.ends_with(".safetensors")) go_on_from(readers.latents(o.extend), o, index, r);
  else if (!o.extend.empty()) go_on_from(readers.reference(o.extend), o, index, r);
  if (!o.noise.empty()) read_noise_file(o.noise, r);
  return r;
}

}  // namespace zt
