// What the server says about itself: capabilities, readiness, metrics, the OpenAPI document.
#include <fstream>

#include "models/minimax_h3/layout.h"
#include "pipeline/channel.h"
#include "serve/http/fields.h"
#include "serve/http/service.h"
#include "serve/job.h"

namespace zt::http {

namespace {

double resident_bytes() {
  std::ifstream f("/proc/self/statm");
  double size = 0, resident = 0;
  f >> size >> resident;
  return resident * 4096;
}

std::string label(const std::string& text) {   // of a metric
  std::string out;
  for (char c : text) out += c == '"' || c == '\\' || c == '\n' ? '_' : c;
  return out;
}

Json error_schema() {
  const Json text{{"type", "string"}}, maybe{{"type", {"string", "null"}}};
  const Json error{{"type", "object"},
                   {"required", {"message", "type", "param", "code"}},
                   {"properties", {{"message", text}, {"type", text}, {"param", maybe}, {"code", maybe}}}};
  return {{"type", "object"}, {"required", {"error"}}, {"properties", {{"error", error}}}};
}

Json video_schema() {
  const Json text{{"type", "string"}}, number{{"type", "integer"}}, maybe_text{{"type", {"string", "null"}}}, maybe_number{{"type", {"integer", "null"}}};
  return {{"type", "object"},
          {"required",
           {"id", "object", "model", "status", "progress", "created_at", "completed_at", "expires_at", "prompt", "size", "seconds", "remixed_from_video_id", "error"}},
          {"properties",
           {{"id", text},
            {"object", {{"type", "string"}, {"enum", {"video"}}}},
            {"model", text},
            {"status", {{"type", "string"}, {"enum", {"queued", "in_progress", "completed", "failed"}}}},
            {"progress", {{"type", "integer"}, {"minimum", 0}, {"maximum", 100}}},
            {"created_at", number},
            {"completed_at", maybe_number},
            {"expires_at", maybe_number},
            {"prompt", maybe_text},
            {"size", text},
            {"seconds", text},
            {"remixed_from_video_id", maybe_text},
            {"error", {{"type", {"object", "null"}}, {"properties", {{"code", text}, {"message", text}, {"param", maybe_text}}}}},
            {"frames", number},
            {"seed", number},
            {"steps", number},
            {"plan", text},
            {"task", text}}}};
}

Json live_schema() {
  const Json text{{"type", "string"}}, number{{"type", "integer"}}, real{{"type", "number"}};
  return {{"type", "object"},
          {"required",
           {"id", "object", "status", "prompt", "lead_seconds", "made_seconds", "played_seconds", "evaluations_now", "rung", "viewers", "stream_url", "hls_url",
            "error"}},
          {"properties",
           {{"id", text},
            {"object", {{"type", "string"}, {"enum", {"live"}}}},
            {"status", {{"type", "string"}, {"enum", {"starting", "playing", "waiting", "paused", "stopped", "failed"}}}},
            {"prompt", text},
            {"lora", {{"type", "array"}, {"items", text}}},
            {"evaluations", number},
            {"evaluations_now", number},
            {"rung", number},
            {"lead_seconds", real},
            {"made_seconds", real},
            {"played_seconds", real},
            {"viewers", number},
            {"stalls", number},
            {"work_per_second", real},
            {"stream_url", text},
            {"hls_url", text},
            {"error", {{"type", {"object", "null"}}, {"properties", {{"code", text}, {"message", text}}}}}}}};
}

Json vote_body() {
  const Json id{{"type", "string"}}, choice{{"type", "string"}, {"enum", {"a", "b", "same"}}};
  const Json properties{{"a", id}, {"b", id}, {"choice", choice}};
  const Json schema{{"type", "object"}, {"required", {"a", "b", "choice"}}, {"additionalProperties", false}, {"properties", properties}};
  return {{"required", true}, {"content", {{"application/json", {{"schema", schema}}}}}};
}

// What POST and PATCH of a live channel take.
Json live_body(bool create) {
  Json p{{"prompt", {{"type", "string"}, {"minLength", 1}, {"maxLength", 32000}}},
         {"evaluations", {{"type", "integer"}, {"minimum", 1}, {"maximum", 1000}}},
         {"paused", {{"type", "boolean"}}}};
  if (create) {
    p["seed"] = {{"type", "integer"}, {"minimum", 0}};
    p["size"] = {{"type", "string"}, {"pattern", "^[1-9][0-9]{1,3}x[1-9][0-9]{1,3}$"}};
    p["lora"] = create_schema()["properties"]["lora"];
    p["lead_seconds"] = {{"type", "number"}, {"minimum", 2}, {"maximum", 60}};
  }
  Json out{{"type", "object"}, {"additionalProperties", false}, {"properties", p}};
  if (create) out["required"] = {"prompt"};
  return {{"required", true}, {"content", {{"application/json", {{"schema", out}}}}}};
}

Json capabilities_schema() {
  const Json text{{"type", "string"}}, number{{"type", "integer"}}, flag{{"type", "boolean"}}, object{{"type", "object"}};
  const Json texts{{"type", "array"}, {"items", text}};
  const Json history{{"type", "integer"}, {"description", "frames that a video must have at least to be extended"}};
  const Json properties{{"object", text},  {"version", text},      {"model", text},       {"aliases", texts},  {"plan", text},       {"tasks", texts},
                        {"size", object},  {"frames", object},     {"seconds", object},   {"sound", object},   {"limits", object},   {"evaluations", object},
                        {"variants", texts}, {"urls", flag},       {"live", number},      {"edits", flag},     {"extensions", flag}, {"history_frames", history},
                        {"extension_files", flag}};
  Json required = Json::array();
  for (const auto& [key, value] : properties.items()) required.push_back(key);
  return {{"type", "object"}, {"required", required}, {"properties", properties}};
}

Json answer_of(const Route& route) {
  const std::string_view path = route.pattern, method = route.method;
  auto json = [](const Json& schema) { return Json{{"application/json", {{"schema", schema}}}}; };
  const Json video{{"$ref", "#/components/schemas/Video"}}, any{{"type", "object"}};
  if (path == "/metrics") return {{"text/plain", {{"schema", {{"type", "string"}}}}}};
  if (path.ends_with("/events")) {
    const Json text{{"type", "string"}};
    return {{"text/event-stream", {{"schema", {{"type", "object"}, {"properties", {{"id", text}, {"event", text}, {"data", text}}}}}}}};
  }
  if (path.ends_with("/preview")) return {{"image/png", Json::object()}};
  if (path.ends_with("/stream")) return {{"video/mp4", Json::object()}};
  if (path.ends_with("/content")) return {{"video/mp4", Json::object()}, {"image/*", Json::object()}};
  if (path.ends_with(".m3u8")) return {{"application/vnd.apple.mpegurl", {{"schema", {{"type", "string"}}}}}};
  if (path.ends_with("init.mp4")) return {{"video/mp4", Json::object()}};
  if (path.ends_with(".m4s")) return {{"video/iso.segment", Json::object()}};
  if (path == "/v1/live" && method == "GET") return json(any);
  if (path.starts_with("/v1/live") && method != "DELETE") return json({{"$ref", "#/components/schemas/Live"}});
  if (path == "/v1/videos" && method == "GET")
    return json({{"type", "object"},
                 {"required", {"object", "data", "first_id", "last_id", "has_more"}},
                 {"properties", {{"data", {{"type", "array"}, {"items", video}}}}}});
  if (path.starts_with("/v1/videos") && method != "DELETE") return json(video);
  if (path == "/v1/capabilities") return json({{"$ref", "#/components/schemas/Capabilities"}});
  return json(any);
}

Json parameters_of(const Route& route) {
  Json out = Json::array();
  const std::string_view path = route.pattern;
  auto query = [&](const char* name, const Json& schema, bool required = false) {
    out.push_back({{"name", name}, {"in", "query"}, {"required", required}, {"schema", schema}});
  };
  const Json count{{"type", "integer"}, {"minimum", 0}, {"maximum", INT64_MAX}};
  if (path.find("{id}") != std::string_view::npos) out.push_back({{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  if (path.ends_with("/content")) query("variant", {{"type", "string"}, {"pattern", "^(video|thumbnail|spritesheet|[0-9])$"}});
  if (path.ends_with(".m3u8")) query("_HLS_msn", count), query("_HLS_part", count);
  if (path.ends_with(".m4s")) query("n", count, true), query("part", count);
  if (path == "/v1/videos" && std::string_view(route.method) == "GET") {
    query("limit", {{"type", "integer"}, {"minimum", 0}, {"maximum", 100}});
    query("order", {{"type", "string"}, {"enum", {"asc", "desc"}}});
    query("after", {{"type", "string"}});
    query("status", {{"type", "string"}, {"enum", {"queued", "in_progress", "completed", "failed", "cancelled"}}});
  }
  if (path == "/v1/videos" && std::string_view(route.method) == "POST")
    out.push_back({{"name", "Idempotency-Key"}, {"in", "header"}, {"required", false}, {"schema", {{"type", "string"}, {"minLength", 1}, {"maxLength", 255}}}});
  return out;
}

}  // namespace

Response Service::capabilities() {
  const h3::PipelineConfig& c = index.config;
  const h3::Canvas canvas = h3::resolve_canvas(16, 9, {index.canvas_multiple(), c.canvas_short_edge, c.canvas_max_pixels});
  Json tasks = Json::array();
  if (index.has_transformer) tasks = {"t2va", "fl2va"};
  if (index.has_transformer_ref) tasks.push_back("ref2va");
  int64_t longest = static_cast<int64_t>(c.max_duration_s * h3::kFps), shortest = 5;
  while (longest > 5 && !h3::is_legal_frame_count(longest)) --longest;
  while (static_cast<double>(shortest) / h3::kFps < c.min_duration_s) shortest += h3::kFramesPerChunk;
  return json_response(
      {{"object", "capabilities"},
       {"version", kVersion},
       {"model", options.models.front()},
       {"aliases", options.models},
       {"plan", options.plan},
       {"tasks", tasks},
       {"size",
        {{"default", fmt::format("{}x{}", canvas.width, canvas.height)},
         {"multiple", index.canvas_multiple()},
         {"short_edge", c.canvas_short_edge},
         {"aspect", "1:4 to 4:1"}}},
       {"frames", {{"fps", h3::kFps}, {"rule", "17 n + 5"}, {"min", shortest}, {"max", longest}, {"default", 124}}},
       {"seconds", {{"min", c.min_duration_s}, {"max", c.max_duration_s}}},
       {"evaluations", {{"min", 1}, {"max", 1000}, {"default", zt::Request{}.grid_points - 1}}},
       {"sound", {{"sample_rate", index.sample_rate}, {"channels", 2}}},
       {"limits",
        {{"prompt_characters", 32000},
         {"body_bytes", options.body_bytes},
         {"images", 9},
         {"videos", 3},
         {"sounds", 3},
         {"references", 12},
         {"queued", options.max_queued},
         {"memory_mb", options.memory_bytes >> 20}}},
       {"variants", {"video", "thumbnail", "spritesheet"}},
       {"urls", options.allow_url},
       {"live", live_ ? static_cast<int64_t>(live_->most()) : 0},
       {"edits", false},
       {"extensions", index.has_transformer},
       {"extension_files", index.has_transformer && index.has_transformer_ref},
       {"history_frames", kHistoryFrames}});
}

Response Service::ready() {
  std::string problem = draining ? "the server is ending" : worker_problem_ ? worker_problem_() : "";
  if (problem.empty()) {
    try {
      store.counts();
    } catch (const Error& e) {
      problem = e.what();
    }
  }
  if (problem.empty()) problem = results->problem();
  if (problem.empty()) return json_response({{"status", "ready"}});
  return error_response(503, "not_ready", "", problem);
}

Response Service::metrics_page() {
  const Counts c = store.counts();
  auto jobs = [&](const char* status, int64_t n) { metrics.set("zoetrope_jobs", fmt::format("status=\"{}\"", status), static_cast<double>(n)); };
  jobs("queued", c.queued), jobs("in_progress", c.in_progress), jobs("completed", c.completed), jobs("failed", c.failed), jobs("cancelled", c.cancelled);
  metrics.set("zoetrope_queue_oldest_seconds", "", c.oldest_queued_ms ? static_cast<double>(store.now_ms() - c.oldest_queued_ms) / 1000 : 0);
  metrics.set("zoetrope_predicted_wait_seconds", "", pricer.mean_seconds() * static_cast<double>(c.queued));
  metrics.set("zoetrope_build_info", fmt::format("version=\"{}\",model=\"{}\",plan=\"{}\"", kVersion, label(options.models.front()), label(options.plan)), 1);
  metrics.set("zoetrope_event_streams", "", static_cast<double>(watcher->streams()));
  if (cache_stats_) {
    const auto caches = cache_stats_();
    for (size_t i = 0; i < caches.size(); ++i) {
      const std::string which = fmt::format("cache=\"{}\"", kCacheNames[i]);
      metrics.set("zoetrope_cache_hits_total", which, static_cast<double>(caches[i].hits));
      metrics.set("zoetrope_cache_misses_total", which, static_cast<double>(caches[i].misses));
      metrics.set("zoetrope_cache_bytes", which, static_cast<double>(caches[i].bytes));
    }
  }
  metrics.set("zoetrope_draining", "", draining ? 1 : 0);
  metrics.set("process_resident_memory_bytes", "", resident_bytes());
  metrics.set("process_start_time_seconds", "", static_cast<double>(start_seconds_));
  if (stats_) {
    const ServerStats s = stats_();
    metrics.set("zoetrope_http_connections", "", static_cast<double>(s.connections));
    metrics.set("zoetrope_http_connections_total", "", static_cast<double>(s.accepted));
    metrics.set("zoetrope_http_connections_rejected_total", "", static_cast<double>(s.rejected));
    metrics.set("zoetrope_http_timeouts_total", "", static_cast<double>(s.timeouts));
    metrics.set("zoetrope_http_body_bytes", "", static_cast<double>(s.body_bytes));
    metrics.set("zoetrope_http_pending", "", static_cast<double>(s.pending));
  }
  Response out;
  out.body = metrics.text();
  out.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8").set("Cache-Control", "no-store");
  return out;
}

Json openapi_document(const Service& s) {
  Json paths = Json::object();
  const Json error{{"description", "refused"}, {"content", {{"application/json", {{"schema", {{"$ref", "#/components/schemas/Error"}}}}}}}};
  for (const Route& route : routes()) {
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    Json op{{"summary", route.summary}, {"parameters", parameters_of(route)}};
    const std::string_view path = route.pattern;
    const std::string done = method == "post" && path == "/v1/live" ? "201" : "200";
    op["responses"] = {{done, {{"description", "done"}, {"content", answer_of(route)}}}, {"4XX", error}, {"5XX", error}};
    auto body_of = [](const char* schema) {
      const Json content{{"schema", {{"$ref", std::string("#/components/schemas/") + schema}}}};
      return Json{{"required", true}, {"content", {{"application/json", content}, {"multipart/form-data", content}}}};
    };
    if (method == "post" && path == "/v1/videos") op["requestBody"] = body_of("CreateVideo");
    if (path == "/v1/videos/extensions") op["requestBody"] = body_of("ExtendVideo");
    if (path.starts_with("/v1/live") && (method == "post" || method == "patch")) op["requestBody"] = live_body(method == "post");
    if (path == "/v1/votes" && method == "post") op["requestBody"] = vote_body();
    if (path.ends_with("/remix")) {
      const Json properties{{"prompt", {{"type", "string"}}}, {"seed", {{"type", {"integer", "null"}}, {"minimum", 0}}}};
      const Json remix{{"type", "object"}, {"required", {"prompt"}}, {"additionalProperties", false}, {"properties", properties}};
      op["requestBody"] = {{"required", true}, {"content", {{"application/json", {{"schema", remix}}}}}};
    }
    if (!s.keys.empty() && route.scope != kNone) op["security"] = Json::array({{{"key", Json::array()}}});
    paths[std::string(path)][method] = op;
  }
  return {{"openapi", "3.1.0"},
          {"info", {{"title", "zoetrope"}, {"version", kVersion}, {"description", "Video with synchronized sound from a prompt"}}},
          {"paths", paths},
          {"components",
           {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}},
            {"schemas",
             {{"CreateVideo", create_schema()},
              {"ExtendVideo", extension_schema()},
              {"Video", video_schema()},
              {"Live", live_schema()},
              {"Capabilities", capabilities_schema()},
              {"Error", error_schema()}}}}}};
}

Response Service::openapi() { return json_response(openapi_document(*this)); }

}  // namespace zt::http
