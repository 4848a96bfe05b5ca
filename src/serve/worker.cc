#include "serve/worker.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <spdlog/spdlog.h>

#include "formats/safetensors.h"
#include "media/png.h"
#include "media/webp.h"
#include "serve/job.h"
#include "serve/media_apart.h"
#include "serve/worker_files.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Why a run was stopped from outside.
enum class Why { none, lost, cancelled, overdue, stopping, yielding };

struct MakeRoom {};   // thrown between two evaluations
struct BrokenMedium {   // thrown while the request is built
  std::string param, message;
};

struct Worker {
  JobStore& store;
  ResultStore& results;
  Engine& engine;
  const WorkerOptions& options;
  const std::atomic<bool>& stop;
  std::string name, hash;   // of the model folder

  std::string path(const std::string& relative) const { return options.data + "/" + relative; }
};

void sleep_unless(const std::atomic<bool>& stop, std::chrono::milliseconds time) {
  for (const auto end = Clock::now() + time; !stop && Clock::now() < end;) std::this_thread::sleep_for(20ms);
}

// Calls the store until it answers; false if the worker has to stop before.
bool insist(const Worker& w, const char* doing, const std::function<void()>& call) {
  for (auto pause = 100ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 10s)) {
    try {
      call();
      return true;
    } catch (const Error& e) {
      spdlog::warn("worker {}: {}: {}; trying again", w.name, doing, e.what());
    }
    if (w.stop) return false;
    sleep_unless(w.stop, pause);
  }
}

// Keeps the lease while the engine computes, and stops the engine when the job is no longer wanted. The lease itself ends by its time: where
// the store cannot be asked, the run goes on, and its last call finds out.
class Watchman {
 public:
  Watchman(const Worker& w, const Lease& lease) : w_(w), lease_(lease), thread_([this] { watch(); }) {}
  ~Watchman() { finish(); }
  void finish() {
    done_ = true;
    if (thread_.joinable()) thread_.join();
  }
  const std::atomic<bool>* cancel() const { return &cancel_; }
  Why why() const { return why_; }
  // What any call on the lease says.
  void heed(const LeaseState& s) {
    if (!s.held) end(Why::lost);
    else if (s.cancel) end(Why::cancelled);
    else if (s.overdue) end(Why::overdue);
  }

 private:
  void end(Why why) {
    Why none = Why::none;
    why_.compare_exchange_strong(none, why);
    cancel_ = true;
  }

  void watch() {
    auto next = Clock::now();
    int64_t seen = -1;
    while (!done_) {
      if (w_.stop) end(Why::stopping);
      try {
        if (seen < 0) seen = w_.store.revision();
        if (Clock::now() >= next) {
          heed(w_.store.heartbeat(lease_));
          next = Clock::now() + std::chrono::milliseconds(w_.options.heartbeat_ms);
        }
        for (const Change& c : w_.store.changes(seen, 50ms)) {
          seen = c.revision;
          if (c.id != lease_.id) continue;
          const auto job = w_.store.get(lease_.id);
          if (!job || job->cancel_requested) next = Clock::now();   // the heartbeat says which, with the lease in view
        }
      } catch (const Error& e) {
        spdlog::warn("worker {}: heartbeat of {}: {}", w_.name, lease_.id, e.what());
        for (int i = 0; i < 10 && !done_ && !w_.stop; ++i) std::this_thread::sleep_for(50ms);
      }
    }
  }

  const Worker& w_;
  Lease lease_;
  std::atomic<bool> done_{false}, cancel_{false};
  std::atomic<Why> why_{Why::none};
  std::thread thread_;   // last: it uses the others
};

// Shares of a run as they were measured on the released model's proportions; a bar needs no more.
int percent_of(Stage stage, int64_t done, int64_t total) {
  const double part = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0;
  switch (stage) {
    case Stage::load: return 0;
    case Stage::text: return 1;
    case Stage::condition: return 1 + static_cast<int>(3 * part);
    case Stage::denoise: return 4 + static_cast<int>(80 * part);
    case Stage::audio_decode: return 84 + static_cast<int>(2 * part);
    case Stage::video_decode: return 86 + static_cast<int>(13 * part);
    case Stage::encode: return 99;
  }
  return 0;
}

// Tells the store how far a job is: every evaluation, and of the other stages at most ten reports a second.
class Reporter {
 public:
  // Of clip `at` among `count`.
  Reporter(const Worker& w, const Lease& lease, Watchman& watchman, int64_t at, int64_t count)
      : w_(w), lease_(lease), watchman_(watchman), at_(static_cast<int>(at)), count_(static_cast<int>(count)) {}

  void operator()(Stage stage, int64_t done, int64_t total) {
    const auto now = Clock::now();
    if (stage == stage_ && stage != Stage::denoise && done < total && now - last_ < 100ms) return;
    stage_ = stage, last_ = now;
    try {
      const LeaseState s = w_.store.progress(lease_, {stage_name(stage), done, total, (100 * at_ + percent_of(stage, done, total)) / count_});
      yield_ = s.yield;
      watchman_.heed(s);
    } catch (const Error& e) {   // a bar that lags is no reason to lose a run
      spdlog::warn("worker {}: progress of {}: {}", w_.name, lease_.id, e.what());
    }
  }
  bool yield() const { return yield_; }

 private:
  const Worker& w_;
  Lease lease_;
  Watchman& watchman_;
  int at_, count_;
  Stage stage_ = Stage::encode;
  Clock::time_point last_{};
  bool yield_ = false;
};

// The options of a queued job as the engine may take them. What only a person at a terminal may ask for is refused: a job comes from afar.
GenerateOptions read_options(const Worker& w, const Job& job) {
  Json json;
  try {
    json = parse_json(job.options, "the job's options");
  } catch (const Error& e) {
    throw Error(ErrorKind::request, e.what());
  }
  if (!json.is_object()) fail(ErrorKind::request, "the job's options are no JSON object");
  constexpr const char* kLocal[] = {"model", "prompt_file", "config", "noise", "latents", "trace", "profile", "again", "threads", "output", "json", "quiet"};
  for (const char* key : kLocal)
    if (json.contains(key)) fail(ErrorKind::request, "the job's options hold \"{}\", which only the command line may set", key);
  GenerateOptions o;
  fill_from_json(json, o);
  if (o.plan != w.engine.plan().name && json.contains("plan"))
    fail(ErrorKind::request, "the job wants plan {}, this worker runs plan {}", o.plan, w.engine.plan().name);
  o.plan = w.engine.plan().name;
  return o;
}

// Media of a job, read as `readers` do; what is wrong with one is said of the request's field that gave it.
MediaReaders named_readers(const MediaReaders& readers, const std::map<std::string, std::string>& fields) {
  auto named = [&fields](const std::string& path, const auto& read) {
    try {
      return read(path);
    } catch (const Error& e) {
      if (e.kind != ErrorKind::request) throw;
      std::string message = e.what();
      const std::string& field = fields.at(path);
      for (size_t at = 0; (at = message.find(path, at)) != std::string::npos; at += field.size()) message.replace(at, path.size(), field);
      throw BrokenMedium{field, message};
    }
  };
  return {[=](const std::string& path) { return named(path, readers.picture); }, [=](const std::string& path) { return named(path, readers.reference); },
          [=](const std::string& path) { return named(path, readers.latents); }};
}

Request read_request(const Worker& w, const Job& job, GenerateOptions o, const std::atomic<bool>* cancel) {
  const std::string home = job_folder(job.id);
  const Json request = Json::parse(job.request, nullptr, false);
  std::map<std::string, std::string> fields;   // path -> the request's field
  auto place = [&](std::string& path, const std::string& option) {
    const std::string relative = path;
    path = inside_job_folder(w.options.data, home, path);
    const bool told = request.is_object() && request.contains("media") && request["media"].is_object() && request["media"].contains(relative);
    fields[path] = told && request["media"][relative].is_string() ? request["media"][relative].get<std::string>() : option;
  };
  if (!o.first_frame.empty()) place(o.first_frame, "first_frame");
  if (!o.last_frame.empty()) place(o.last_frame, "last_frame");
  if (!o.extend.empty()) place(o.extend, "extend");
  for (const std::string& name : o.lora) find_own_adapter(name, w.engine.index().folder);
  for (size_t i = 0; i < o.references.size(); ++i) place(o.references[i], fmt::format("references[{}]", i));
  return build_request(o, w.engine.index(), named_readers(apart_readers(cancel), fields));
}

std::string segments_folder(const Job& job) { return job_folder(job.id) + "/segments"; }   // of long videos, until the job ends

std::string clip_file(int64_t at) { return at ? fmt::format("/video.{}.mp4", at) : "/video.mp4"; }

// How many clips the job wants, of one request with seeds that follow each other.
int64_t clips_of(const Job& job) {
  const Json options = Json::parse(job.options, nullptr, false);
  return options.is_object() && options.contains("n") && options["n"].is_number_integer() ? std::clamp<int64_t>(options["n"].get<int64_t>(), 1, kMostClips) : 1;
}

// What is written of a clip when it is whole; null if there is no such note, or one of other clips.
Json read_note(const std::string& path, const std::string& identity) {
  std::error_code ec;
  if (!fs::exists(path, ec)) return {};
  try {
    Json note = read_json(path, 1 << 20);
    if (note.value("identity", "") == identity && note["clip"].is_object() && note["clip"]["files"].is_object()) return std::move(note["clip"]);
  } catch (const std::exception&) {   // cut short: the clip is made again
  }
  return {};
}

Json file_json(const Worker& w, const std::string& relative, const char* type) {
  return {{"path", relative}, {"bytes", fs::file_size(w.path(relative))}, {"sha256", sha256_file(w.path(relative))}, {"type", type}};
}

// What belongs together of a job's clips and saved states: others would come out otherwise.
std::string identity_of(const Worker& w, const Job& job) {
  return sha256(fmt::format("{}\n{}\n{}\n{}\n{}", kVersion, w.hash, plan_to_json(w.engine.plan()).dump(), ops_name(w.engine.ops()), job.options));
}

// The engine in this thread's hands: nobody waits for it while a medium is decoded or a result is sent away.
class EngineUse {
 public:
  explicit EngineUse(const Worker& w) : w_(w) {
    if (w.options.turn) hold_.emplace(*w.options.turn);
  }
  ~EngineUse() { w_.engine.arena().release(); }   // before the turn goes on
  EngineUse(const EngineUse&) = delete;
  EngineUse& operator=(const EngineUse&) = delete;

 private:
  const Worker& w_;
  std::optional<EngineTurn::Hold> hold_;
};

// Runs one of a job's clips, number `at` of `count` with the seed that many higher, into `folder` (relative); the clip's result.
Json make_clip(const Worker& w, const Job& job, const std::string& folder, Watchman& watchman, int64_t at, int64_t count) {
  const Lease lease{job.id, job.token};
  const GenerateOptions options = read_options(w, job);
  Request request = read_request(w, job, options, watchman.cancel());
  request.seed += static_cast<uint64_t>(at);
  const std::string kept = job_folder(job.id) + "/checkpoint", identity = fmt::format("{} {}", identity_of(w, job), at);
  const std::string video = clip_file(at);

  Reporter report(w, lease, watchman, at, count);
  Hooks hooks;
  hooks.cancel = watchman.cancel();
  hooks.progress = [&](Stage stage, int64_t done, int64_t total) {
    report(stage, done, total);
    if (w.options.turn) w.options.turn->pass();
  };
  std::optional<Checkpoint> saved;
  DenoiseState state;
  if (w.options.checkpoints && (saved = read_checkpoint(w.path(kept), identity))) {
    state = saved->state();
    hooks.resume = &state;
    spdlog::info("worker {}: job {} goes on after evaluation {} of segment {}", w.name, job.id, saved->evaluations, saved->segment);
  }
  int64_t steps = saved ? job.checkpoint_step : 0;   // in all segments of a long video
  hooks.step_done = [&](const DenoiseState& s) {
    if (w.options.checkpoints) {
      write_checkpoint(w.path(kept), identity, s);
      steps = std::max(steps + 1, s.evaluations);
      try {
        watchman.heed(w.store.checkpoint(lease, kept, s.segment ? steps : s.evaluations));
      } catch (const Error& e) {   // the file is there all the same
        spdlog::warn("worker {}: checkpoint of {}: {}", w.name, job.id, e.what());
      }
    }
    if (watchman.cancel()->load()) throw Cancelled();
    if (report.yield()) throw MakeRoom{};
  };

  const std::string segments = segments_folder(job);
  auto segment_file = [&](int64_t segment) { return w.path(fmt::format("{}/{}.{}", segments, at, segment)); };
  if (w.options.checkpoints && request.long_video) {
    hooks.segment_made = [&](int64_t segment, const Latents& l) {
      make_folder(w.path(segments));
      write_segment(segment_file(segment), identity, segment, l);
    };
    hooks.kept_segment = [&](int64_t segment) { return read_segment(segment_file(segment), identity, segment); };
  }

  hooks.preview = [&](const uint8_t* rgb, int64_t width, int64_t height) {
    const auto bytes = encode_png(shrink(rgb, static_cast<int>(width), static_cast<int>(height), 512));
    write_file(w.path(job_folder(job.id) + "/preview.png"), bytes.data(), bytes.size(), false);
  };
  if (at == 0) hooks.latents = [&](const Latents& l) { save_latents(w.path(folder + "/latents.safetensors"), l); };
  std::optional<ContactSheet> sheet;
  const FrameWatcher watch = [&](const ClipInfo& clip, const uint8_t* rgb, int64_t count) {
    const int width = static_cast<int>(clip.width), height = static_cast<int>(clip.height);
    if (!sheet) sheet.emplace(clip.num_frames, 4, 4, 320);
    for (int64_t i = 0; i < count; ++i) sheet->add(rgb + i * 3 * width * height, width, height);
  };
  const std::string stream = at == 0 ? w.path(folder + "/stream.mp4") : "";
  const JobReport done = [&] {
    const EngineUse use(w);
    return run_request(w.engine, options, std::move(request), w.hash, w.path(folder + video), hooks, watch, stream);
  }();
  flush_to_disk(w.path(folder + video));
  Json j = report_json(done);
  for (const char* key : {"output", "prompt", "model"}) j.erase(key);
  j["model"] = fs::path(done.model).filename().string();
  j["files"] = {{"video", file_json(w, folder + video, "video/mp4")}};
  if (at == 0) {   // pictures and latents stand for the job
    for (const auto& [name, picture] : {std::pair{"thumbnail", sheet->middle()}, std::pair{"spritesheet", sheet->sheet()}}) {
      const auto bytes = encode_webp(picture);
      const std::string path = fmt::format("{}/{}.webp", folder, name);
      write_file(w.path(path), bytes.data(), bytes.size(), true);
      j["files"][name] = file_json(w, path, "image/webp");
    }
    flush_to_disk(w.path(folder + "/latents.safetensors"));
    j["files"]["latents"] = file_json(w, folder + "/latents.safetensors", "application/octet-stream");
  }
  flush_to_disk(w.path(folder));
  return j;
}

// Runs the job into `folder`; the result's JSON, whose files are on the disk. Of several clips each is noted when it is whole, and not made again after an interruption.
std::string run_claimed(const Worker& w, const Job& job, const std::string& folder, Watchman& watchman) {
  const int64_t count = clips_of(job);
  const std::string identity = identity_of(w, job);
  Json result, videos = Json::array();
  double seconds = 0;
  for (int64_t at = 0; at < count; ++at) {
    const std::string note = w.path(fmt::format("{}/made.{}.json", folder, at));
    Json clip = read_note(note, identity);
    if (clip.is_null()) {
      clip = make_clip(w, job, folder, watchman, at, count);
      const std::string text = Json{{"identity", identity}, {"clip", clip}}.dump(-1, ' ', false, Json::error_handler_t::replace);
      if (count > 1 || w.results.remote()) write_file(note, text.data(), text.size(), true);
    }
    for (auto& [name, file] : clip["files"].items()) file["path"] = folder + "/" + fs::path(file.value("path", "")).filename().string();
    seconds += clip.value("total_seconds", 0.0);
    videos.push_back(clip["files"]["video"]);
    videos.back()["seed"] = clip["seed"];
    if (at == 0) result = std::move(clip);
  }
  if (w.results.remote()) result["kept_away"] = true;
  if (count > 1) result["videos"] = videos, result["total_seconds"] = seconds;
  return result.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void remove_folder(const std::string& path) {
  std::error_code ec;
  fs::remove_all(path, ec);
}

// Folders of claims before this one, of this job, go; clips that are whole go on in this one's.
void take_over_older_runs(const Worker& w, const Job& job, const std::string& folder) {
  std::error_code ec;
  const int64_t count = clips_of(job);
  for (const auto& e : fs::directory_iterator(w.path(job_folder(job.id)), ec)) {
    if (!e.path().filename().string().starts_with("run.") || e.path() == fs::path(w.path(folder))) continue;
    for (int64_t at = 0; at < count; ++at) {
      const std::string note = fmt::format("/made.{}.json", at);
      Json clip = read_note(e.path().string() + note, identity_of(w, job));
      if (clip.is_null()) continue;
      std::vector<std::string> names{note, "/stream.mp4"};
      for (const auto& [name, file] : clip["files"].items()) names.insert(names.begin(), "/" + fs::path(file.value("path", "")).filename().string());
      for (const std::string& name : names)   // the note last of what it speaks of
        if (at == 0 || name != "/stream.mp4") fs::rename(e.path().string() + name, w.path(folder + name), ec);
    }
    remove_folder(e.path().string());
  }
}

const char* code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::request: return "request";
    case ErrorKind::model: return "model";
    case ErrorKind::resource: return "resource";
    case ErrorKind::internal: return "internal";
  }
  return "internal";
}

// How a run ended, and what the store is told.
struct Outcome {
  enum Kind { completed, failed, cancelled, released, lost } kind = failed;
  std::string code, text;   // failed: code and message; completed: the result
  bool trouble = false;     // released because the data folder cannot be written
  std::string param = {};   // failed: the request's field
};

Outcome stopped(const Watchman& watchman) {
  switch (watchman.why()) {
    case Why::lost: return {Outcome::lost, "", ""};
    case Why::cancelled: return {Outcome::cancelled, "", ""};
    case Why::overdue: return {Outcome::failed, "deadline_exceeded", "its deadline passed while it ran"};
    default: return {Outcome::released, "", ""};
  }
}

Outcome failed(const Worker& w, const std::string& code, const std::string& message) {
  // The clip could not be written; its part file is gone by now, so that a probe would find room again.
  if (message.starts_with("output ")) return {Outcome::released, "", message, true};
  try {   // a file that cannot be written is the disk's fault, not the job's
    probe_folder(w.options.data);
  } catch (const FolderTrouble& e) {
    return {Outcome::released, "", e.message, true};
  }
  return {Outcome::failed, code, message};
}

// A job in hand.
struct Claim {
  Claim(const Worker& w, Job claimed)
      : job(std::move(claimed)), lease{job.id, job.token}, home(job_folder(job.id)), folder(fmt::format("{}/run.{}", home, job.token)), watchman(w, lease) {}
  const Job job;
  const Lease lease;
  const std::string home, folder;
  const Clock::time_point start = Clock::now();
  Watchman watchman;
};

Outcome guarded(const Worker& w, const Watchman& watchman, const std::function<Outcome()>& run) {
  try {
    return run();
  } catch (const Cancelled&) {
    return stopped(watchman);
  } catch (const MakeRoom&) {
    return {Outcome::released, "", ""};
  } catch (const FolderTrouble& e) {
    return {Outcome::released, "", e.message, true};
  } catch (const BrokenMedium& e) {
    Outcome outcome = failed(w, "request", e.message);
    outcome.param = e.param;
    return outcome;
  } catch (const Error& e) {
    return failed(w, code_of(e.kind), e.what());
  } catch (const std::bad_alloc&) {
    return {Outcome::failed, "resource", "out of memory; ask for a smaller or shorter clip"};
  } catch (const std::exception& e) {
    return failed(w, "internal", e.what());
  }
}

Outcome make(const Worker& w, Claim& claim) {
  return guarded(w, claim.watchman, [&]() -> Outcome {
    make_folder(w.path(claim.folder));
    take_over_older_runs(w, claim.job, claim.folder);
    return {Outcome::completed, "", run_claimed(w, claim.job, claim.folder, claim.watchman)};
  });
}

// Calls the store of results until it has the file.
void keep_file(const Worker& w, const Claim& claim, const Json& file) {
  const std::atomic<bool>* cancel = claim.watchman.cancel();
  for (auto pause = 500ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 30s)) {
    try {
      if (!w.results.keep(file.value("path", ""), file.value("type", ""), file.value("sha256", ""), cancel)) throw Cancelled();
      return;
    } catch (const Error& e) {
      spdlog::error("worker {}: job {} is made and waits for its place: {}; trying again", w.name, claim.job.id, e.what());
    }
    sleep_unless(*cancel, pause);
    if (cancel->load()) throw Cancelled();
  }
}

// Sends away what make() made. Whoever stops that finds the clips again by their notes.
Outcome keep(const Worker& w, const Claim& claim, Outcome made) {
  return guarded(w, claim.watchman, [&] {
    const Json result = parse_json(made.text, "the result");
    for (const auto& [name, file] : result["files"].items()) keep_file(w, claim, file);
    if (result.contains("videos"))
      for (size_t i = 1; i < result["videos"].size(); ++i) keep_file(w, claim, result["videos"][i]);   // the first is among the files
    return std::move(made);
  });
}

// Tells the store; true if it took the word.
bool settle(const Worker& w, const Lease& lease, const Outcome& outcome) {
  bool taken = false;
  insist(w, "ending a job", [&] {
    switch (outcome.kind) {
      case Outcome::completed: taken = w.store.complete(lease, outcome.text); break;
      case Outcome::failed: taken = w.store.fail(lease, outcome.code, outcome.text, outcome.param); break;
      case Outcome::cancelled: taken = w.store.cancelled(lease); break;
      case Outcome::released: taken = w.store.release(lease); break;
      case Outcome::lost: break;
    }
  });
  return taken;
}

// What a player may be in the middle of stays.
void remove_all_but_stream(const std::string& folder) {
  std::error_code ec;
  for (const auto& e : fs::directory_iterator(folder, ec))
    if (e.path().filename() != "stream.mp4") remove_folder(e.path().string());
}

// What claims have sent to a store of results and nobody wants: all of the job, or all but the run that is its result.
void forget_kept(ResultStore& results, const std::string& home, const std::string& except = "") {
  if (!results.remote()) return;
  try {
    results.forget(home, except);
  } catch (const Error& e) {
    spdlog::warn("{}; the sweep comes by later", e.what());
  }
}

// Tells the store how the job ended and tidies up after it.
void finish(const Worker& w, Claim& claim, const Outcome& outcome) {
  claim.watchman.finish();
  const bool taken = settle(w, claim.lease, outcome);
  constexpr const char* kWords[] = {"completed", "failed", "cancelled", "given back", "lost"};
  spdlog::info("worker {}: job {} {} after {:.2f} s{}{}", w.name, claim.job.id, kWords[outcome.kind],
               std::chrono::duration<double>(Clock::now() - claim.start).count(), taken || outcome.kind == Outcome::lost ? "" : " (its lease was lost)",
               outcome.kind == Outcome::failed ? ": " + outcome.code + ": " + outcome.text : "");
  if (outcome.trouble) {
    spdlog::error("worker {}: {}", w.name, outcome.text);
    sleep_unless(w.stop, 2s);
  }
  const bool completed = taken && outcome.kind == Outcome::completed, ended = taken && outcome.kind != Outcome::released;
  if (completed && w.results.remote()) remove_all_but_stream(w.path(claim.folder));
  if (taken && !ended && fs::exists(w.path(claim.folder + "/made.0.json"))) return;   // the next claim takes it over
  if (!completed) remove_folder(w.path(claim.folder));
  if (ended) forget_kept(w.results, claim.home, completed ? fmt::format("run.{}", claim.job.token) : "");
  else forget_kept(w.results, claim.folder);   // another's run may be the job's result
  if (ended) remove_folder(w.path(claim.home + "/checkpoint")), remove_folder(w.path(segments_folder(claim.job)));
  if (!taken) {
    try {
      if (!w.store.get(claim.job.id)) remove_folder(w.path(claim.home)), forget_kept(w.results, claim.home);   // deleted meanwhile
    } catch (const Error&) {   // the sweep comes by later
    }
  }
}

// Finished clips on their way to a store of results: a thread for each waits there in the engine's stead, and keeps the job's lease.
class Keepers {
 public:
  explicit Keepers(const Worker& w) : w_(w) {}
  ~Keepers() {
    for (Keeper& k : keepers_) k.thread.join();
  }
  Keepers(const Keepers&) = delete;
  Keepers& operator=(const Keepers&) = delete;

  // Waits until one more may be added; false if the worker has to stop before.
  bool room() {
    for (;; sleep_unless(w_.stop, 50ms)) {
      keepers_.remove_if([](Keeper& k) {
        if (!k.done) return false;
        k.thread.join();
        return true;
      });
      if (w_.stop) return false;
      if (keepers_.size() < w_.options.most_waiting) return true;
    }
  }
  void add(std::unique_ptr<Claim> claim, Outcome made) {
    Keeper& k = keepers_.emplace_back();
    k.thread = std::thread([this, &k, claim = std::move(claim), made = std::move(made)]() mutable {
      try {
        finish(w_, *claim, keep(w_, *claim, std::move(made)));
      } catch (const std::exception& e) {   // its lease ends, and another takes it up
        spdlog::error("worker {}: job {}: {}", w_.name, claim->job.id, e.what());
      }
      claim.reset();
      k.done = true;
    });
  }

 private:
  struct Keeper {
    std::thread thread;
    std::atomic<bool> done{false};
  };
  const Worker& w_;
  std::list<Keeper> keepers_;
};

void run_one(const Worker& w, const Job& job, Keepers& keepers) {
  spdlog::info("worker {}: job {} begins, attempt {}", w.name, job.id, job.attempt);
  auto claim = std::make_unique<Claim>(w, job);
  Outcome made = make(w, *claim);
  if (made.kind == Outcome::completed && w.results.remote()) keepers.add(std::move(claim), std::move(made));
  else finish(w, *claim, made);
}

// Sleeps until the store changes, `poll_ms` are over, or it must stop.
void wait_for_work(const Worker& w, int64_t seen) {
  const auto end = Clock::now() + std::chrono::milliseconds(w.options.poll_ms);
  while (!w.stop && Clock::now() < end)
    if (!w.store.changes(seen, 100ms, 1).empty()) return;
}

std::string host_and_process() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return fmt::format("{}:{}", host, getpid());
}

void sweep_results(JobStore& store, ResultStore& results) {
  results.sweep([&](const std::string& id, const std::string& run) {
    const auto job = is_job_id(id) ? store.get(id) : std::nullopt;
    return job && (job->ended_ms == 0 || (job->status == JobStatus::completed && run == fmt::format("run.{}", job->token)));
  });
}

// Whether the job's files went to a store of results: those of before there was one are only here.
bool is_kept_away(const Job& job) {
  const Json result = Json::parse(job.result, nullptr, false);
  return job.status == JobStatus::completed && result.is_object() && result.value("kept_away", false);
}

}  // namespace

void sweep_data_folder(JobStore& store, ResultStore& results, const std::string& data) {
  for (const Job& job : store.sweep()) {
    remove_folder(data + "/" + job_folder(job.id));
    forget_kept(results, job_folder(job.id));
  }
  std::error_code ec;
  const auto old = fs::file_time_type::clock::now() - 1h;
  for (const auto& e : fs::directory_iterator(data + "/jobs", ec)) {
    const std::string id = e.path().filename().string();
    std::error_code gone;
    if (!is_job_id(id) || fs::last_write_time(e.path(), gone) > old || gone) continue;
    const auto job = store.get(id);
    if (!job) {
      remove_folder(e.path().string());
    } else if (job->ended_ms > 0) {
      for (const char* name : {"checkpoint", "segments", "preview.png"}) remove_folder(e.path() / name);
      const std::string last = fmt::format("run.{}", job->token);
      if (results.remote() && is_kept_away(*job)) remove_all_but_stream(e.path() / last);
      const fs::path stream = e.path() / last / "stream.mp4";
      if (fs::last_write_time(stream, gone) <= old && !gone) remove_folder(stream);   // it may have been made again since
      const bool completed = job->status == JobStatus::completed;
      for (const auto& run : fs::directory_iterator(e.path(), gone))
        if (const std::string name = run.path().filename().string(); name.starts_with("run.") && !(completed && name == last))
          remove_folder(run.path().string());
    }
  }
}

void run_worker(JobStore& store, Engine& engine, const WorkerOptions& options, const std::atomic<bool>& stop) {
  const auto folder = options.results ? nullptr : open_results("", options.data);
  Worker w{store, options.results ? *options.results : *folder, engine, options, stop, options.name.empty() ? host_and_process() : options.name,
           model_hash(engine.index().folder)};
  Keepers keepers(w);
  auto next_sweep = Clock::now(), next_results_sweep = next_sweep;
  while (keepers.room()) {
    try {
      probe_folder(options.data);
      if (Clock::now() >= next_sweep) {
        sweep_data_folder(store, w.results, options.data);
        next_sweep = Clock::now() + 60s;
      }
      if (Clock::now() >= next_results_sweep) {   // it lists every object
        next_results_sweep = Clock::now() + 1h;
        sweep_results(store, w.results);
      }
      const int64_t seen = store.revision();
      if (const auto job = store.claim(w.name, options.lease_ms))
        run_one(w, *job, keepers);
      else
        wait_for_work(w, seen);
    } catch (const FolderTrouble& e) {
      spdlog::error("worker {}: takes no job: {}", w.name, e.message);
      sleep_unless(stop, 2s);
    } catch (const Error& e) {
      spdlog::error("worker {}: {}", w.name, e.what());
      sleep_unless(stop, 1s);
    }
  }
}

}  // namespace zt
