// Jobs as VideoResources: retrieve, list, delete, cancel.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "serve/http/service.h"

namespace zt::http {

namespace {

Json object_of(const std::string& text) {
  Json j = Json::parse(text.empty() ? "{}" : text, nullptr, false);
  return j.is_object() ? j : Json::object();
}

Json seconds_or_null(int64_t ms) { return ms ? Json(ms / 1000) : Json(); }

}  // namespace

Json video_resource(const Job& job) {
  const Json request = object_of(job.request), result = object_of(job.result);
  const bool done = job.status == JobStatus::completed, ended = job.ended_ms != 0;
  Json out{{"id", job.id},
           {"object", "video"},
           {"status", job.status == JobStatus::cancelled ? "failed" : status_name(job.status)},
           {"progress", done ? 100 : std::clamp(job.percent, 0, 99)},
           {"created_at", job.created_ms / 1000},
           {"completed_at", done ? seconds_or_null(job.ended_ms) : Json()},
           {"expires_at", seconds_or_null(job.expires_ms)},
           {"error", nullptr},
           {"remixed_from_video_id", job.remixed_from.empty() ? Json() : Json(job.remixed_from)}};
  for (const char* key : {"model", "prompt", "size", "seconds"}) out[key] = request.value(key, "");
  for (const char* key : {"width", "height", "frames", "fps", "duration_seconds", "seed", "steps", "evaluations", "task", "plan", "n", "extended_from_video_id",
                          "warnings"})
    if (request.contains(key)) out[key] = request[key];
  if (job.status == JobStatus::cancelled) out["error"] = {{"code", "cancelled"}, {"message", "the video was cancelled"}, {"param", nullptr}};
  if (job.status == JobStatus::failed)
    out["error"] = {{"code", job.error_code}, {"message", job.error_message}, {"param", job.error_param.empty() ? Json() : Json(job.error_param)}};
  if (!ended && !job.stage.empty()) out["stage"] = {{"name", job.stage}, {"done", job.done}, {"total", job.total}};
  if (done) {
    for (const char* key : {"width", "height", "frames", "fps"})
      if (result.contains(key)) out[key] = result[key];
    out["inference_time_s"] = result.value("total_seconds", 0.0);
    out["peak_memory_mb"] = result.value("peak_rss_bytes", int64_t{0}) / 1048576;
    Json stages = Json::object();
    if (result.contains("stages"))
      for (const Json& s : result["stages"]) stages[s.value("stage", "?")] = s.value("seconds", 0.0);
    out["stage_durations"] = stages;
    out["url"] = "/v1/videos/" + job.id + "/content";
    const Json video = result.contains("files") && result["files"].contains("video") ? result["files"]["video"] : Json::object();
    out["media_type"] = video.value("type", "video/mp4");
    out["bytes"] = video.value("bytes", int64_t{0});
    out["sha256"] = video.value("sha256", "");
    if (result.contains("videos")) {
      out["outputs"] = Json::array();
      for (const Json& v : result["videos"])
        out["outputs"].push_back({{"url", fmt::format("/v1/videos/{}/content?variant={}", job.id, out["outputs"].size())},
                                  {"seed", v.value("seed", uint64_t{0})},
                                  {"bytes", v.value("bytes", int64_t{0})},
                                  {"sha256", v.value("sha256", "")}});
    }
  }
  return out;
}

// About a tenth of what is left, so that a finished clip is noticed soon and a long one is not asked about a thousand times.
int64_t poll_after_ms(const Job& job) {
  if (job.ended_ms) return 0;
  if (!job.started_ms || job.percent <= 0) return 500;
  const int64_t spent = std::max<int64_t>(job.heartbeat_ms - job.started_ms, 0);
  return std::clamp<int64_t>(spent * (100 - job.percent) / job.percent / 10, 200, 5000);
}

Job find_job(Service& s, const Request& r, const std::string& id) {
  std::optional<Job> job;
  if (is_job_id(id)) job = s.store.get(id, s.owner(r));
  if (!job) throw HttpError(404, "not_found", "id", fmt::format("there is no video {}", id.substr(0, 60)));
  return std::move(*job);
}

Response Service::retrieve(const Request& r, const std::string& id) {
  const Job job = find_job(*this, r, id);
  Response out = json_response(video_resource(job));
  if (const int64_t ms = poll_after_ms(job)) out.set("openai-poll-after-ms", std::to_string(ms));
  return out;
}

Response Service::list(const Request& r) {
  ListQuery q;
  q.owner = owner(r);
  if (const std::string* limit = r.parameter("limit")) {
    const auto [end, error] = std::from_chars(limit->data(), limit->data() + limit->size(), q.limit);
    if (error != std::errc() || end != limit->data() + limit->size() || q.limit < 0 || q.limit > 100)
      refuse("limit", "limit is \"{}\"; wanted 0 to 100", limit->substr(0, 40));
  }
  if (const std::string* order = r.parameter("order")) {
    if (*order != "asc" && *order != "desc") refuse("order", "order is \"{}\"; wanted asc or desc", order->substr(0, 40));
    q.ascending = *order == "asc";
  }
  if (const std::string* status = r.parameter("status")) {
    q.status = parse_status(*status);
    if (!q.status) refuse("status", "status is \"{}\"; wanted queued, in_progress, completed, failed or cancelled", status->substr(0, 40));
  }
  if (const std::string* after = r.parameter("after")) {
    if (!is_job_id(*after) || !store.get(*after, q.owner)) refuse("after", "after is \"{}\", which is no video of yours", after->substr(0, 60));
    q.after = *after;
  }
  Page page = store.list(q);
  Json data = Json::array();
  for (const Job& job : page.jobs) data.push_back(video_resource(job));
  const Json first = data.empty() ? Json() : data.front()["id"], last = data.empty() ? Json() : data.back()["id"];
  return json_response({{"object", "list"}, {"data", std::move(data)}, {"first_id", first}, {"last_id", last}, {"has_more", page.has_more}});
}

Response Service::remove(const Request& r, const std::string& id) {
  const Job job = find_job(*this, r, id);
  if (!store.erase(job.id, owner(r))) throw HttpError(404, "not_found", "id", "the video is gone already");
  std::error_code ec;
  std::filesystem::remove_all(options.data + "/" + job_folder(job.id), ec);
  if (results->remote()) {
    try {
      results->forget(job_folder(job.id));
    } catch (const Error& e) {   // it is deleted all the same; a worker's sweep removes what nobody wants
      std::fprintf(stderr, "zoetrope: deleting %s: %s\n", job.id.c_str(), e.what());
    }
  }
  return json_response({{"id", job.id}, {"object", "video.deleted"}, {"deleted", true}});
}

Response Service::cancel(const Request& r, const std::string& id) {
  const Job job = find_job(*this, r, id);
  const std::optional<Job> after = store.request_cancel(job.id, owner(r));
  if (!after) throw HttpError(404, "not_found", "id", "the video is gone already");
  return json_response(video_resource(*after));
}

}  // namespace zt::http
