// A request to make a video, from its body to an accepted job: POST /v1/videos, extensions and remix.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "formats/safetensors.h"
#include "models/minimax_h3/layout.h"
#include "pipeline/channel.h"
#include "pipeline/conditions.h"
#include "serve/http/media_inputs.h"
#include "serve/http/service.h"

namespace fs = std::filesystem;

namespace zt::http {

namespace {

// The folder of a job that is not accepted in the end goes away again.
class Folder {
 public:
  Folder(std::string path) : path_(std::move(path)) {}
  ~Folder() {
    std::error_code ec;
    if (!kept_) fs::remove_all(path_, ec);
  }
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

std::string idempotency_key(const Request& r) {
  const std::string* key = r.header("idempotency-key");
  if (!key) return "";
  if (key->empty() || key->size() > 255) refuse("Idempotency-Key", "the Idempotency-Key header has {} bytes; wanted 1 to 255", key->size());
  return *key;
}

// The video that a request extends: an id, or a medium, which is put with the others.
std::string read_video(const Body& body, CreateFields& f) {
  const auto at = body.fields.find("video");
  if (at == body.fields.end() || at->is_null()) throw HttpError(400, "missing_field", "video", "video is missing; name it by {\"id\": ...} or send a file");
  const bool tree = body.text && at->is_string() && at->get_ref<const std::string&>().starts_with("{");
  const Json video = tree ? parse_client_json(at->get_ref<const std::string&>(), "video") : *at;
  Json medium = video;
  std::string where = "video";
  if (video.is_object() && video.size() == 1) {
    const std::string key = video.begin().key();
    if (key == "id" && video["id"].is_string()) return video["id"];
    if (key == "video_url" || key == "url" || key == "uri") medium = video[key], where += "." + key;
    if (medium.is_object() && medium.size() == 1 && medium.contains("url")) medium = Json(medium["url"]);
  }
  if (!medium.is_string() && !medium.is_binary())
    refuse("video", "video is neither {{\"id\": \"video_...\"}} nor a file, a data: URI or {{\"video_url\": \"data:...\"}}; give one of them");
  f.media.push_back({MediaInput::Use::start, std::move(medium), where, "video"});
  f.spelled["extend"] = where;
  return "";
}

Json object_of(const std::string& text) {
  Json j = Json::parse(text, nullptr, false);
  if (!j.is_object()) fail(ErrorKind::internal, "the store holds a job that cannot be read");
  return j;
}

// Seconds as clients write them; 0 if it is no number.
double seconds_of(const std::string& text) {
  double s = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), s);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(s) ? s : 0;
}

// A file of another job's folder under a name of this one's, shared where the file system can.
void take_over(ResultStore& results, const std::string& data, const std::string& from, const std::string& to) {
  const bool here = fs::exists(data + "/" + from);   // an upload, which every machine has, and not a finished file
  if (!(here ? open_results("", data)->fetch(from, data + "/" + to) : results.fetch(from, data + "/" + to)))
    throw HttpError(409, "input_missing", "video", "what the first video was made from is no longer there");
}

int64_t retry_seconds(double seconds) { return std::clamp<int64_t>(std::llround(seconds), 1, 3600); }

void check_task(const zt::Request& request, const h3::ModelIndex& index, const CreateFields& f) {
  const auto at = f.spelled.find("task");
  const std::string where = at != f.spelled.end() ? at->second : f.media.empty() ? "task" : f.media.front().where;
  if (request.task == Task::ref2va ? !index.has_transformer_ref : !index.has_transformer)
    throw HttpError(400, "not_supported", where, fmt::format("this model has no part for task {}", task_name(request.task)));
}

}  // namespace

struct Service::Accepting {
  CreateFields fields;
  std::string remixed_from, extended_from;
  std::string start;   // latents of the video that this one goes on from, relative to the data folder; "" if none
};

Price Pricer::price(const zt::Request& request, const Geometry& g) const {
  const int64_t start = request.start ? frames_of(*request.start) : request.start_clip ? start_frames(*request.start_clip) : 0;
  const int64_t segments = request.long_video ? long_segments(g.num_frames, start, request.config) : 1;
  Price p;
  p.rows = request_rows(request, g, index_);
  p.evaluations = (request.grid_points - 1) * segments;
  const MemoryNeeds& needs = memory_[request.task == Task::ref2va];
  p.bytes = fit_memory(needs, working_bytes(p.rows, needs.hidden, g.width, g.height), !request.adapters.empty(), limit_).bytes;
  const std::lock_guard lock(mutex_);
  p.seconds = per_row_evaluation_ * static_cast<double>(p.rows) * static_cast<double>(p.evaluations);
  return p;
}

void Pricer::learn(const Price& price, double seconds) {
  if (price.rows < 1 || price.evaluations < 1 || !(seconds > 0)) return;
  const double sample = seconds / (static_cast<double>(price.rows) * static_cast<double>(price.evaluations));
  const std::lock_guard lock(mutex_);
  per_row_evaluation_ = per_row_evaluation_ > 0 ? 0.8 * per_row_evaluation_ + 0.2 * sample : sample;
  mean_ = mean_ > 0 ? 0.9 * mean_ + 0.1 * seconds : seconds;
}

double Pricer::mean_seconds() const {
  const std::lock_guard lock(mutex_);
  return mean_;
}

Response Service::create(Request& r) {
  Accepting a;
  {
    const Body body = read_body(r);
    r.body = {};
    a.fields = read_fields(body, {index, options.models, options.plan, r.lenient});
  }
  return accept(r, a);
}

Response Service::remix(Request& r, const std::string& id) {
  const Job job = find_job(*this, r, id);
  const Body body = read_body(r);
  for (const auto& [key, value] : body.fields.items())
    if (key != "prompt" && key != "seed") throw HttpError(400, "unknown_field", key.substr(0, 120), "a remix takes prompt and seed alone");
  if (!body.fields.contains("prompt") || body.fields["prompt"].is_null())
    throw HttpError(400, "missing_field", "prompt", "prompt is missing; say what is to be different");
  Accepting a;
  a.remixed_from = id;
  a.fields = read_fields(body, {index, options.models, options.plan, r.lenient});
  const std::string prompt = a.fields.options["prompt"];
  Json old = object_of(job.options);
  auto take = [&](const std::string& path, MediaInput::Use use) {
    std::ifstream f(fs::path(options.data) / path, std::ios::binary);
    const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(f)), {});
    if (!f || bytes.empty()) throw HttpError(409, "input_missing", "id", "a picture, video or sound of the first request is no longer there");
    a.fields.media.push_back({use, Json::binary(bytes), "id", ""});   // the field that names the first request
  };
  if (old.contains("first_frame")) take(old["first_frame"], MediaInput::Use::first_frame);
  if (old.contains("last_frame")) take(old["last_frame"], MediaInput::Use::last_frame);
  if (old.contains("references"))
    for (const Json& path : old["references"]) take(path, MediaInput::Use::reference);
  if (const std::string path = old.value("extend", ""); path.ends_with(".safetensors")) a.start = path;
  else if (!path.empty()) take(path, MediaInput::Use::start), a.fields.spelled["extend"] = "id";
  for (const char* key : {"first_frame", "last_frame", "references", "extend"}) old.erase(key);
  old["prompt"] = prompt;
  if (a.fields.options.contains("seed")) old["seed"] = a.fields.options["seed"];
  a.fields.options = old;
  const Json echoed = object_of(job.request);
  a.fields.seconds = echoed.value("seconds", ""), a.extended_from = echoed.value("extended_from_video_id", "");
  return accept(r, a);
}

// The stitched whole: the video from its latents, or those of a file's end, and what is added, through one decode.
Response Service::extend(Request& r) {
  Body body = read_body(r);
  r.body = {};
  Json video;
  if (body.fields.contains("video")) video = std::move(body.fields["video"]), body.fields.erase("video");
  Accepting a;
  a.fields = read_fields(body, {index, options.models, options.plan, r.lenient});
  CreateFields& f = a.fields;
  for (const char* key : {"size", "short_edge", "aspect", "task"})
    if (f.spelled.count(key)) refuse(f.spelled[key], "{} follows from the video that is extended; leave it out", f.spelled[key]);
  if (!f.media.empty()) refuse(f.media[0].where, "{}: an extension goes on from its video alone", f.media[0].where);
  body.fields = {{"video", std::move(video)}};
  const std::string id = read_video(body, f);
  if (!f.media.empty()) {
    if (!index.has_transformer_ref)
      throw HttpError(400, "not_supported", f.media[0].where,
                      "this model takes no videos and sounds (it has no transformer_ref), so its encoders of them cannot be relied on; extend a video of this "
                      "server, named by its id");
    f.seconds = "";   // those of the whole are known once the file was looked at
    return accept(r, a);
  }
  std::optional<Job> job;
  if (is_job_id(id)) job = store.get(id, owner(r));
  if (!job) throw HttpError(404, "not_found", "video", fmt::format("there is no video {}", id.substr(0, 60)));
  if (job->status != JobStatus::completed)
    throw HttpError(409, job->ended_ms ? "video_failed" : "video_not_ready", "video", "only a completed video can be extended");
  const Json made = object_of(job->result), echoed = object_of(job->request), old = object_of(job->options);
  if (!made.contains("files") || !made["files"].contains("latents")) throw HttpError(409, "input_missing", "video", "this video was made before latents were kept");
  if (const int64_t frames = made.value("frames", int64_t{0}); frames < kHistoryFrames)
    throw HttpError(400, "invalid_value", "video", fmt::format("the video has {} frames; at least {} are needed to go on from", frames, kHistoryFrames));
  a.start = made["files"]["latents"].value("path", "");
  a.extended_from = id;
  const bool counted = f.options.contains("steps") || f.options.contains("evaluations");
  auto inherit = [&](const char* key) {
    if (old.contains(key) && !f.options.contains(key)) f.options[key] = old[key];
  };
  inherit("seed"), inherit("lora");
  if (!counted) inherit("steps"), inherit("evaluations");
  const double before = seconds_of(echoed.value("seconds", "")), added = seconds_of(f.seconds);
  f.seconds = before > 0 && added > 0 ? fmt::format("{:g}", before + added) : "";
  return accept(r, a);
}

Response Service::accept(Request& r, Accepting& a) {
  CreateFields& f = a.fields;
  const std::string key = idempotency_key(r), id = new_job_id();
  const bool keyframes = std::any_of(f.media.begin(), f.media.end(), [](const MediaInput& m) {
    return m.use == MediaInput::Use::first_frame || m.use == MediaInput::Use::last_frame;
  });
  if (f.options.value("prompt", "").empty() && !keyframes) throw HttpError(400, "missing_field", "prompt", "prompt is missing or empty; say what the clip shows");
  if (!f.webhook.empty() && !webhook_allowed(options.webhooks, f.webhook))
    refuse("webhook_url", "webhook_url is no address that the operator of this server allows (--webhook-prefix)");
  f.options["plan"] = options.plan;
  Folder folder(options.data + "/" + job_folder(id));
  FetchLimits limits;
  limits.bytes = options.body_bytes;
  StoredMedia media = store_media(f, options.data, id, options.allow_url, limits);
  if (!a.start.empty()) {
    const std::string path = job_folder(id) + "/input/extend.safetensors";
    take_over(*results, options.data, a.start, path);
    f.options["extend"] = path;
    media.fields.emplace(path, a.remixed_from.empty() ? "video" : "id");
  }

  zt::Request request;
  Geometry geometry{};
  try {
    GenerateOptions o;
    fill_from_json(f.options, o);
    MediaReaders readers = size_readers(media);
    readers.latents = [&](const std::string& path) { return load_latents(options.data + "/" + path); };
    request = build_request(o, index, readers);
    check_task(request, index, f);
    geometry = resolve_geometry(request, index.canvas_multiple());
  } catch (const Error& e) {
    if (e.kind != ErrorKind::request) throw;
    rethrow_named(e.what(), f);
  }
  const int64_t clips = f.options.value("n", int64_t{1});
  Price price = pricer.price(request, geometry);
  price.evaluations *= clips, price.seconds *= static_cast<double>(clips);
  if (options.memory_bytes && price.bytes > options.memory_bytes)
    throw HttpError(413, "too_large", f.spelled.count("size") ? f.spelled.at("size") : "size",
                    fmt::format("{}x{} with {} frames needs about {} MiB; this server has {} MiB for a request. Ask for a smaller or shorter clip", geometry.width,
                                geometry.height, geometry.num_frames, price.bytes >> 20, options.memory_bytes >> 20));
  const double mean = pricer.mean_seconds() > 0 ? pricer.mean_seconds() : 5;
  if (options.max_wait_seconds > 0) {
    const double wait = static_cast<double>(store.counts().queued) * mean;
    if (wait > options.max_wait_seconds) {
      HttpError busy(429, "queue_full", "", fmt::format("the queue is {:.0f} s long; at most {:g} s are taken", wait, options.max_wait_seconds));
      busy.retry_after = static_cast<int>(retry_seconds(wait - options.max_wait_seconds));
      throw busy;
    }
  }

  NewJob job;
  job.id = id;
  job.owner = r.caller;
  job.options = f.options.dump();
  std::string canonical = job.options;
  for (size_t at = 0; (at = canonical.find(id, at)) != std::string::npos;) canonical.erase(at, id.size());
  job.fingerprint = sha256(canonical + "\n" + media.digest + "\n" + a.remixed_from + "\n" + a.start);
  job.idempotency_key = key;
  job.remixed_from = a.remixed_from;
  if (!f.webhook.empty()) job.webhook = Json{{"url", f.webhook}}.dump();
  job.priority = f.priority;
  job.retention_ms = options.retention_seconds * 1000;
  if (f.deadline_seconds) job.deadline_ms = store.now_ms() + f.deadline_seconds * 1000;
  const double seconds = static_cast<double>(geometry.num_frames) / h3::kFps;
  Json echo{{"model", f.model.empty() ? options.models.front() : f.model},
            {"prompt", request.prompt},
            {"size", fmt::format("{}x{}", geometry.width, geometry.height)},
            {"seconds", f.seconds.empty() ? fmt::format("{:.6g}", seconds) : f.seconds},
            {"width", geometry.width},
            {"height", geometry.height},
            {"frames", geometry.num_frames},
            {"fps", h3::kFps},
            {"duration_seconds", seconds},
            {"seed", request.seed},
            {"steps", request.grid_points},
            {"evaluations", request.grid_points - 1},
            {"task", task_name(request.task)},
            {"plan", options.plan},
            {"price", {{"rows", price.rows}, {"evaluations", price.evaluations}, {"memory_mb", price.bytes >> 20}, {"seconds", price.seconds}}}};
  if (clips > 1) echo["n"] = clips;
  if (!media.fields.empty()) echo["media"] = media.fields;   // for the worker, which may find one broken
  if (!a.extended_from.empty()) echo["extended_from_video_id"] = a.extended_from;
  if (!f.warnings.empty()) echo["warnings"] = f.warnings;
  job.request = echo.dump(-1, ' ', false, Json::error_handler_t::replace);

  const Key* caller = keys.find(r.caller);
  const Created made = store.create(job, {options.max_queued, caller ? caller->max_queued : 0});
  switch (made.outcome) {
    case CreateOutcome::created: folder.keep(); break;
    case CreateOutcome::existing: break;
    case CreateOutcome::conflict:
      throw HttpError(409, "idempotency_conflict", "Idempotency-Key", "this Idempotency-Key came before with another request; use a new one");
    case CreateOutcome::full: {
      HttpError full(429, "queue_full", "", "the queue is full; try again later");
      full.retry_after = static_cast<int>(retry_seconds(mean));
      throw full;
    }
  }
  Response out = f.stream ? stream(r, made.job.id) : json_response(video_resource(made.job));
  if (made.outcome == CreateOutcome::existing) out.set("Idempotency-Replayed", "true");
  return std::move(out.set("openai-poll-after-ms", std::to_string(poll_after_ms(made.job))).set("Location", "/v1/videos/" + made.job.id));
}

}  // namespace zt::http
