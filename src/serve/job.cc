#include "serve/job.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "formats/safetensors.h"
#include "media/decode.h"
#include "media/mp4_writer.h"
#include "pipeline/profile.h"
#include "pipeline/trace.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

// Refuses a path that cannot be written before any minute is spent on the clip.
void check_writable(const std::string& path, const char* option) {
  std::error_code ec;
  if (fs::is_directory(path, ec)) fail(ErrorKind::request, "{} {}: is a folder; give the path of a file", option, path);
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, ec)) fail(ErrorKind::request, "{} {}: folder {} does not exist; make it first", option, path, folder.string());
  const std::string probe = (folder / fmt::format(".zoetrope-probe-{}", getpid())).string();
  int fd = open(probe.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) fail(ErrorKind::request, "{} {}: cannot write into {}: {}", option, path, folder.string(), std::strerror(errno));
  close(fd);
  unlink(probe.c_str());
}

// What the clip carries so that it can be made again from itself.
Json clip_metadata(const GenerateOptions& o, const JobReport& report) {
  Json request = options_to_json(o);
  request["prompt"] = report.request.prompt;
  request["task"] = task_name(report.request.task);
  request["seed"] = report.request.seed;
  request["steps"] = report.request.grid_points;
  request.erase("evaluations");
  return {{"engine", "zoetrope"},   {"version", kVersion},           {"request", request},
          {"plan", plan_to_json(report.plan)}, {"model_hash", report.model_hash}, {"seed", report.request.seed}};
}

void save_trace(const TraceRecorder& trace, const std::string& path) {
  std::vector<NamedView> views;
  for (auto& [name, k] : trace.tensors()) views.push_back({name, {k.bytes.data(), k.dtype, k.shape}});
  save_safetensors(path, views);
}

Tensor finite_tensor(const SafetensorsFile& file, const char* name, size_t dims) {
  const View* view = file.find(name);
  if (!view || view->dtype != DType::f32 || view->shape.size() != dims || view->count() == 0)
    fail(ErrorKind::request, "{}: holds no F32 tensor \"{}\" of {} dimensions; wanted latents as --latents writes them", file.path(), name, dims);
  Tensor out(view->shape);
  to_float32(*view, out.data());
  if (!std::all_of(out.data(), out.data() + out.count(), [](float x) { return std::isfinite(x); }))
    fail(ErrorKind::request, "{}: tensor {} holds NaN or infinity, wanted finite numbers", file.path(), name);
  return out;
}

void fill_from_clip(GenerateOptions& o) {
  const std::string text = read_metadata(o.again);
  if (text.empty()) fail(ErrorKind::request, "--again {}: carries no request; only clips that zoetrope made do", o.again);
  Json j;
  try {
    j = parse_json(text, o.again);
  } catch (const Error& e) {
    throw Error(ErrorKind::request, std::string("--again ") + e.what());
  }
  if (!j.is_object() || !j.contains("request") || !j["request"].is_object()) fail(ErrorKind::request, "--again {}: its metadata holds no request", o.again);
  Json request = j["request"];
  auto drop = [&](bool given, std::initializer_list<const char*> keys) {
    if (given)
      for (const char* k : keys) request.erase(k);
  };
  drop(o.evaluations.has_value(), {"steps"});
  drop(!o.prompt_file.empty(), {"prompt"});
  drop(o.seconds.has_value(), {"frames"});
  drop(o.frames.has_value(), {"seconds"});
  drop(!o.size.empty(), {"short_edge", "aspect"});
  drop(o.short_edge || !o.aspect.empty(), {"size"});
  fill_from_json(request, o);
}

// Chrome's trace event format: complete events ("X"), microseconds, a lane for each thread.
void save_profile(const Profile& profile, const std::string& path) {
  Json events = Json::array();
  for (const auto& [lane, name] : {std::pair{Profile::Lane::engine, "engine"}, std::pair{Profile::Lane::encoder, "encoder"}})
    events.push_back({{"ph", "M"}, {"name", "thread_name"}, {"pid", 1}, {"tid", static_cast<int>(lane) + 1}, {"args", {{"name", name}}}});
  std::map<Stage, int64_t> count;
  for (const Profile::Span& s : profile.spans())
    events.push_back({{"ph", "X"},
                      {"name", stage_name(s.stage)},
                      {"cat", "stage"},
                      {"pid", 1},
                      {"tid", static_cast<int>(s.lane) + 1},
                      {"ts", s.start * 1e6},
                      {"dur", s.seconds * 1e6},
                      {"args", {{"number", count[s.stage]++}}}});
  std::ofstream f(path);
  f << Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() << "\n";
  if (!f.flush()) fail(ErrorKind::request, "--profile {}: cannot be written", path);
}

}  // namespace

size_t peak_rss_bytes() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  return static_cast<size_t>(u.ru_maxrss) * 1024;
}

void save_latents(const std::string& path, const Latents& l) { save_safetensors(path, {{"video", l.video.view()}, {"sound", l.sound.view()}}); }

Latents load_latents(const std::string& path) {
  try {
    const SafetensorsFile file(path);
    return {finite_tensor(file, "video", 4), finite_tensor(file, "sound", 3)};
  } catch (const Error& e) {
    throw Error(ErrorKind::request, std::string("--extend ") + e.what());
  }
}

std::string resolve_model_folder(const std::string& option) {
  if (!option.empty()) return option;
  std::error_code ec;
  const fs::path program = fs::read_symlink("/proc/self/exe", ec).parent_path();
  for (const fs::path& p : {program / "../models/h3-nano", program / "../share/zoetrope/models/h3-nano", fs::path("models/h3-nano")})
    if (fs::exists(p / "modular_model_index.json", ec)) return fs::weakly_canonical(p, ec).string();
  fail(ErrorKind::model, "the default model h3-nano is not beside the program; give --model DIR");
}

std::string model_hash(const std::string& folder) {
  constexpr uintmax_t kWhole = uintmax_t{256} << 20;
  constexpr std::streamsize kEdge = 1 << 20;
  std::vector<std::string> files;
  for (const auto& e : fs::recursive_directory_iterator(folder))
    if (e.is_regular_file() && e.path().extension() != ".md") files.push_back(fs::relative(e.path(), folder).string());
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::string& f : files) {
    const std::string path = folder + "/" + f;
    const uintmax_t size = fs::file_size(path);
    std::string part;
    if (size <= kWhole) {
      part = sha256_file(path);
    } else {
      std::ifstream in(path, std::ios::binary);
      part.resize(2 * kEdge);
      in.read(part.data(), kEdge);
      in.seekg(-kEdge, std::ios::end);
      in.read(part.data() + kEdge, kEdge);
    }
    text += fmt::format("{}\n{}\n", f, size) + part + "\n";
  }
  return sha256(text);
}

JobReport run_request(Engine& engine, const GenerateOptions& options, Request request, const std::string& model_hash, const std::string& output,
                      const Hooks& hooks, const FrameWatcher& frames, const std::string& stream) {
  JobReport report;
  const auto start = std::chrono::steady_clock::now();
  report.model = engine.index().folder;
  report.output = output;
  report.plan = engine.plan();
  if (!options.steps && !options.evaluations && report.plan.evaluations > 0 && !request.schedule.evaluations)
    request.grid_points = report.plan.evaluations + 1;   // the plan's own
  report.threads = engine.threads();
  report.isa = ops_name(engine.ops());
  report.request = std::move(request);
  report.model_hash = model_hash;

  std::unique_ptr<Mp4Writer> writer;
  ClipInfo clip;
  Sink sink;
  sink.begin = [&](const ClipInfo& begun) {
    clip = begun;
    Mp4Options mp4;
    mp4.width = static_cast<int>(clip.width);
    mp4.height = static_cast<int>(clip.height);
    mp4.fps = clip.fps;
    mp4.sample_rate = clip.sample_rate;
    mp4.channels = clip.channels;
    mp4.stream_path = stream;
    mp4.preset = report.plan.encoder_preset;
    mp4.sound_coder = report.plan.sound_coder;
    mp4.sound_beside = report.plan.overlap && engine.threads() > 1;
    mp4.metadata = {{"title", report.request.prompt.substr(0, 200)},
                    {"zoetrope", clip_metadata(options, report).dump(-1, ' ', false, Json::error_handler_t::replace)}};
    writer = std::make_unique<Mp4Writer>(output, mp4);
  };
  sink.frames = [&](const uint8_t* rgb, int64_t n) {
    writer->write_frames(rgb, n);
    if (frames) frames(clip, rgb, n);
  };
  sink.sound = [&](const std::vector<const float*>& channels, int64_t n) { writer->write_audio(channels.data(), n); };
  report.result = engine.generate(report.request, sink, hooks);
  const auto closing = std::chrono::steady_clock::now();
  writer->finish();
  const auto end = std::chrono::steady_clock::now();
  for (StageTime& s : report.result.stages)
    if (s.stage == Stage::encode) s.seconds += std::chrono::duration<double>(end - closing).count();
  report.total_seconds = std::chrono::duration<double>(end - start).count();
  report.peak_rss_bytes = peak_rss_bytes();
  report.request.first_frame.reset(), report.request.last_frame.reset(), report.request.references.clear(), report.request.noise.clear();
  report.request.start.reset(), report.request.start_clip.reset();
  return report;
}

JobReport run_job(const GenerateOptions& given, const std::string& model_folder, const Hooks& outer) {
  GenerateOptions options = given;
  if (!options.again.empty()) fill_from_clip(options);
  const auto start = std::chrono::steady_clock::now();
  const Plan plan = read_plan(options.plan, model_folder);
  check_writable(options.output, "--output");
  if (!options.latents.empty()) check_writable(options.latents, "--latents");
  if (!options.trace.empty()) check_writable(options.trace, "--trace");
  if (!options.profile.empty()) check_writable(options.profile, "--profile");
  if (options.threads && (*options.threads < 1 || *options.threads > 256)) fail(ErrorKind::request, "--threads is {}; wanted 1 to 256", *options.threads);
  Engine engine(model_folder, plan, options.threads ? static_cast<int>(*options.threads) : default_thread_count());
  engine.limit_memory(options.memory ? *options.memory << 20 : usable_bytes(), options.memory.has_value());
  Request request = build_request(options, engine.index());
  TraceRecorder trace;
  Hooks hooks = outer;
  if (!options.trace.empty()) hooks.tap = trace.tap();
  if (!options.latents.empty()) hooks.latents = [&](const Latents& l) { save_latents(options.latents, l); };
  Profile profile;
  if (!options.profile.empty()) hooks.profile = &profile;
  JobReport report = run_request(engine, options, std::move(request), model_hash(model_folder), options.output, hooks);
  if (!options.profile.empty()) save_profile(profile, options.profile);
  report.model = model_folder;
  if (!options.trace.empty()) save_trace(trace, options.trace);
  report.total_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

Json report_json(const JobReport& r) {
  const ClipInfo& c = r.result.clip;
  const double seconds = static_cast<double>(c.num_frames) / c.fps;
  Json stages = Json::array();
  for (const StageTime& s : r.result.stages)
    stages.push_back({{"stage", stage_name(s.stage)}, {"seconds", s.seconds}, {"share", s.seconds / r.total_seconds}, {"runs", s.runs}});
  return {{"output", r.output},
          {"task", task_name(r.request.task)},
          {"prompt", r.request.prompt},
          {"width", c.width},
          {"height", c.height},
          {"frames", c.num_frames},
          {"fps", c.fps},
          {"seconds", seconds},
          {"sample_rate", c.sample_rate},
          {"samples", c.num_samples},
          {"seed", r.request.seed},
          {"steps", r.request.grid_points},
          {"evaluations", r.result.evaluations},
          {"evaluations_left_out", r.result.evaluations_left_out},
          {"plan", plan_to_json(r.plan)},
          {"model", r.model},
          {"model_hash", r.model_hash},
          {"version", kVersion},
          {"isa", r.isa},
          {"threads", r.threads},
          {"stages", stages},
          {"total_seconds", r.total_seconds},
          {"ratio", r.total_seconds / seconds},
          {"warnings", r.result.warnings},
          {"peak_rss_bytes", r.peak_rss_bytes},
          {"peak_activation_bytes", r.result.peak_activation_bytes}};
}

}  // namespace zt
