// Admission, routing, errors, CORS, logs: what every route goes through.
#include "serve/http/service.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <new>

#include "serve/http/pages.h"

namespace zt::http {

namespace {

struct Match {
  const Route* route = nullptr;
  std::string id, allow;       // allow: the methods of that path, when none fits
};

bool fits(std::string_view pattern, std::string_view path, std::string& id) {
  const size_t hole = pattern.find("{id}");
  if (hole == std::string_view::npos) return pattern == path;
  const std::string_view before = pattern.substr(0, hole), after = pattern.substr(hole + 4);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after)) return false;
  const std::string_view middle = path.substr(before.size(), path.size() - before.size() - after.size());
  if (middle.find('/') != std::string_view::npos) return false;
  id = middle;
  return true;
}

// All files of the studio are one route; no API lists them.
const Route kPageRoute{"GET", "/", "The studio", kNone, false, [](Service&, Request& r, const std::string&) { return page_response(r, *find_page(r.path)); }};

Match match(const Request& r) {
  Match m;
  std::string path = r.path;
  if (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::string method = r.method == "HEAD" ? "GET" : r.method;
  const auto fixed = [&](const Route& route) { return path == route.pattern; };   // no video is called "edits"
  const bool literal = std::any_of(routes().begin(), routes().end(), fixed);
  for (const Route& route : routes()) {
    std::string id;
    if (literal ? !fixed(route) : !fits(route.pattern, path, id)) continue;
    m.allow += std::string(m.allow.empty() ? "" : ", ") + route.method + (std::string_view(route.method) == "GET" ? ", HEAD" : "");
    if (method == route.method && !m.route) m.route = &route, m.id = id;
  }
  if (m.allow.empty() && find_page(r.path)) {
    m.allow = "GET, HEAD";
    if (method == "GET") m.route = &kPageRoute;
  }
  return m;
}

std::string host_name(const std::string& host) {   // without its port
  if (host.starts_with("[")) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_loopback_name(const std::string& host) {
  const std::string name = host_name(host);
  return name == "localhost" || name == "[::1]" || name.starts_with("127.");
}

// A page of another origin that a person of this machine has open may not drive the server in their name.
bool foreign_origin(const Request& r, const std::vector<std::string>& allowed) {
  const std::string* origin = r.header("origin");
  if (!origin || r.method == "GET" || r.method == "HEAD" || r.method == "OPTIONS") return false;
  for (const std::string& a : allowed)
    if (a == "*" || a == *origin) return false;
  const std::string* host = r.header("host");
  return !host || (*origin != "http://" + *host && *origin != "https://" + *host);
}

}  // namespace

Service::Service(const ServiceOptions& o, JobStore& s, const h3::ModelIndex& i, const std::array<MemoryNeeds, 2>& memory)
    : options(o), store(s), results(open_results(o.results, o.data)), index(i),
      keys(o.keys_file.empty() ? Keys() : Keys(o.keys_file)), pricer(i, memory, o.memory_bytes), start_seconds_(std::time(nullptr)) {
  watcher = std::make_unique<Watcher>(store, [this](const Job& job) { ended(job); });
  if (!options.webhooks.prefixes.empty()) webhooks = std::make_unique<Webhooks>(store, options.webhooks, metrics);
}

Service::~Service() = default;

std::optional<std::string> Service::owner(const Request& r) const { return keys.empty() ? std::nullopt : std::optional(r.caller); }

void Service::ended(const Job& job) {
  metrics.add("zoetrope_jobs_finished_total", fmt::format("status=\"{}\"", status_name(job.status)));
  if (job.status != JobStatus::completed) return;
  const Json result = Json::parse(job.result, nullptr, false), request = Json::parse(job.request, nullptr, false);
  if (!result.is_object()) return;
  const double total = result.value("total_seconds", 0.0);
  metrics.add("zoetrope_job_seconds_total", "", total);
  const double clips = result.contains("videos") ? static_cast<double>(result["videos"].size()) : 1;
  metrics.add("zoetrope_clip_seconds_total", "", result.value("seconds", 0.0) * clips);
  if (result.contains("stages") && result["stages"].is_array())
    for (const Json& stage : result["stages"])
      metrics.add("zoetrope_stage_seconds_total", fmt::format("stage=\"{}\"", stage.value("stage", "")), stage.value("seconds", 0.0));
  if (request.is_object() && request.contains("price")) {
    const Json& p = request["price"];
    pricer.learn({p.value("rows", int64_t{0}), p.value("evaluations", int64_t{0}), 0, 0}, total);
  }
}

void Service::add_cors(const Request& r, Response& out) const {
  const std::string* origin = r.header("origin");
  if (!origin) return;
  const bool any = std::find(options.cors_origins.begin(), options.cors_origins.end(), "*") != options.cors_origins.end();
  if (!any && std::find(options.cors_origins.begin(), options.cors_origins.end(), *origin) == options.cors_origins.end()) return;
  out.set("Access-Control-Allow-Origin", any ? "*" : *origin).set("Vary", "Origin");
  out.set("Access-Control-Expose-Headers", "Content-Length, Content-Range, Accept-Ranges, ETag, Location, Retry-After, openai-poll-after-ms");
}

std::optional<Response> Service::admit(Request& r) {
  auto refuse = [&](Response out) {
    add_cors(r, out);
    metrics.add("zoetrope_http_requests_total", fmt::format("method=\"other\",route=\"refused\",status=\"{}\"", out.status));
    return std::optional(std::move(out));
  };
  const std::string* host = r.header("host");
  if (keys.empty() && host && !is_loopback_name(*host))   // a foreign name that was made to resolve to this machine
    return refuse(error_response(403, "foreign_host", "", "without --keys this server answers on loopback names alone; the Host header is another"));
  if (foreign_origin(r, options.cors_origins))
    return refuse(error_response(403, "foreign_origin", "", "pages of this origin may not use the server; the operator can allow them with --cors-origin"));
  const Match m = match(r);
  if (r.method == "OPTIONS" && !m.allow.empty()) {
    Response out;
    out.status = 204;
    out.set("Allow", m.allow + ", OPTIONS").set("Access-Control-Allow-Methods", m.allow + ", OPTIONS").set("Access-Control-Max-Age", "600");
    out.set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Range, If-None-Match, If-Range, Last-Event-ID");
    return refuse(std::move(out));
  }
  if (m.allow.empty()) return refuse(error_response(404, "not_found", "", "no such address; /openapi.json lists them all"));
  if (!m.route) {
    Response out = error_response(405, "method_not_allowed", "", "this address knows " + m.allow);
    return refuse(std::move(out.set("Allow", m.allow + ", OPTIONS")));
  }
  if (draining && m.route->scope == kCreate) {
    Response out = error_response(503, "shutting_down", "", "the server is ending; try again in a moment");
    return refuse(std::move(out.set("Retry-After", "5")));
  }
  if (keys.empty() || m.route->scope == kNone) return std::nullopt;
  const std::string* given = r.header("authorization");
  const Key* key = given && given->starts_with("Bearer ") ? keys.identify(given->substr(7)) : nullptr;
  if (!key) {
    Response out = error_response(401, "invalid_api_key", "", given ? "the API key is not known" : "an API key is needed: Authorization: Bearer KEY");
    return refuse(std::move(out.set("WWW-Authenticate", "Bearer")));
  }
  if (!(key->scopes & m.route->scope)) return refuse(error_response(403, "missing_scope", "", "the API key may not do this"));
  if (const double wait = keys.take(*key); wait > 0) {
    Response out = error_response(429, "rate_limit_exceeded", "", fmt::format("more than {:g} requests a minute", key->per_minute));
    metrics.add("zoetrope_rejections_total", "code=\"rate_limit_exceeded\"");
    return refuse(std::move(out.set("Retry-After", std::to_string(static_cast<int64_t>(wait) + 1))));
  }
  r.caller = key->id;
  r.lenient = key->lenient;
  return std::nullopt;
}

// What `run` answers, or the refusal that it ended in; `code` is then that of its error.
Response Service::attempt(const Request& r, const Route& route, std::string& code, const std::function<Response()>& run) {
  Response out;
  try {
    return run();
  } catch (const HttpError& e) {
    out = error_response(e), code = e.code;
  } catch (const Error& e) {
    const bool away = e.kind == ErrorKind::resource;
    code = away ? "unavailable" : e.kind == ErrorKind::request ? "invalid_value" : e.kind == ErrorKind::model ? "model_error" : "internal_error";
    out = error_response(http_status(e.kind), code, "", e.what());
    if (away) out.set("Retry-After", "5");
  } catch (const std::bad_alloc&) {
    out = error_response(503, code = "out_of_memory", "", "the server is short of memory; try again"), out.set("Retry-After", "5");
  } catch (const std::exception& e) {
    out = error_response(500, code = "internal_error", "", "the server failed on this request; its log says how");
    std::fprintf(stderr, "zoetrope: %s %s: %s\n", r.method.c_str(), route.pattern, e.what());
  }
  return out;
}

void Service::finish(const Request& r, const Route& route, Response& out, const std::string& code, double seconds) {
  if (!code.empty()) metrics.add("zoetrope_rejections_total", fmt::format("code=\"{}\"", code));
  out.set("X-Content-Type-Options", "nosniff");
  add_cors(r, out);
  metrics.add("zoetrope_http_requests_total", fmt::format("method=\"{}\",route=\"{}\",status=\"{}\"", r.method, route.pattern, out.status));
  metrics.observe("zoetrope_http_request_seconds", fmt::format("route=\"{}\"", route.pattern), seconds);
  if (options.access_log || out.status >= 500) log(r, route.pattern, out, seconds);
}

Response Service::handle(Request& r) {
  const auto start = std::chrono::steady_clock::now();
  auto spent = [start] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const Match m = match(r);
  std::string code;
  Response out = attempt(r, *m.route, code, [&] { return m.route->run(*this, r, m.id); });
  if (!out.later) {
    finish(r, *m.route, out, code, spent());
    return out;
  }
  out.later = [this, spent, route = m.route, asked = std::make_shared<const Request>(r), later = std::move(out.later)]() -> std::optional<Response> {
    std::string refused;
    std::optional<Response> answer;
    Response last = attempt(*asked, *route, refused, [&] {
      answer = later();
      return answer ? std::move(*answer) : Response();
    });
    if (!answer && refused.empty()) return std::nullopt;
    finish(*asked, *route, last, refused, spent());
    return last;
  };
  return out;
}

// No prompt, no key, no path that a client chose.
void Service::log(const Request& r, const std::string& route, const Response& out, double seconds) {
  const Json line{{"time", std::time(nullptr)}, {"method", r.method}, {"route", route},          {"status", out.status},
                  {"ms", seconds * 1000},       {"peer", r.peer},     {"caller", r.caller.empty() ? Json() : Json(r.caller)}};
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

Handler Service::handler() {
  Handler h;
  h.admit = [this](Request& r) { return admit(r); };
  h.handle = [this](Request& r) { return handle(r); };
  h.slow = [](const Request& r) {
    const Match m = match(r);
    return m.route && m.route->slow;
  };
  h.refuse = [this](int status, const std::string& message) {
    const char* code = status == 413 ? "body_too_large" : status == 431 ? "header_too_large" : status == 408 ? "timeout" : status == 503 ? "busy" : "bad_http";
    metrics.add("zoetrope_rejections_total", fmt::format("code=\"{}\"", code));
    return error_response(status, code, status == 413 ? "body" : "", message);
  };
  h.draining = [this] { draining = true; };
  return h;
}

Response json_response(const Json& body, int status) {
  Response r;
  r.status = status;
  r.body = body.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  r.set("Content-Type", "application/json").set("Cache-Control", "no-store");
  return r;
}

const std::vector<Route>& routes() {
  using S = Service;
  using R = Request;
  using Id = const std::string&;
  auto not_yet = [](S&, R&, Id) -> Response {
    throw HttpError(400, "not_supported", "", "this server makes no edits and no characters; use POST /v1/videos with references or first_frame, extensions, or remix");
  };
  static const std::vector<Route> table = {
      {"POST", "/v1/videos", "Create a video", kCreate, true, [](S& s, R& r, Id) { return s.create(r); }},
      {"GET", "/v1/videos", "List videos", kRead, false, [](S& s, R& r, Id) { return s.list(r); }},
      {"POST", "/v1/videos/edits", "Edit a video (not possible)", kCreate, false, not_yet},
      {"POST", "/v1/videos/extensions", "A video and what comes after it, as one", kCreate, true, [](S& s, R& r, Id) { return s.extend(r); }},
      {"POST", "/v1/videos/characters", "Create a character (not possible)", kCreate, false, not_yet},
      {"GET", "/v1/videos/{id}", "One video", kRead, false, [](S& s, R& r, Id id) { return s.retrieve(r, id); }},
      {"DELETE", "/v1/videos/{id}", "Delete a video, finished or not", kDelete, true, [](S& s, R& r, Id id) { return s.remove(r, id); }},
      {"GET", "/v1/videos/{id}/content", "Bytes of a finished video, its thumbnail or its spritesheet", kRead, true, [](S& s, R& r, Id id) { return s.content(r, id); }},
      {"GET", "/v1/videos/{id}/events", "Progress as Server-Sent Events", kRead, false, [](S& s, R& r, Id id) { return s.events(r, id); }},
      {"GET", "/v1/videos/{id}/preview", "The latest picture of a video in the making", kRead, false, [](S& s, R& r, Id id) { return s.preview(r, id); }},
      {"GET", "/v1/videos/{id}/stream", "A video that plays while it is being made: fragmented MP4", kRead, false,
       [](S& s, R& r, Id id) { return s.stream(r, id); }},
      {"GET", "/v1/videos/{id}/index.m3u8", "A video as HLS, under way or finished: its playlist", kRead, true, [](S& s, R& r, Id id) { return s.hls_playlist(r, id); }},
      {"GET", "/v1/videos/{id}/init.mp4", "HLS: what every segment needs before it", kRead, true, [](S& s, R& r, Id id) { return s.hls_init(r, id); }},
      {"GET", "/v1/videos/{id}/segment.m4s", "HLS: a segment, or a part of one", kRead, true, [](S& s, R& r, Id id) { return s.hls_segment(r, id); }},
      {"POST", "/v1/videos/{id}/remix", "The same request with another prompt", kCreate, true, [](S& s, R& r, Id id) { return s.remix(r, id); }},
      {"POST", "/v1/videos/{id}/cancel", "Stop a video that is queued or in the making", kDelete, true, [](S& s, R& r, Id id) { return s.cancel(r, id); }},
      {"POST", "/v1/live", "Open a live channel: video without end", kCreate, true, [](S& s, R& r, Id) { return s.live_create(r); }},
      {"GET", "/v1/live", "List live channels", kRead, false, [](S& s, R& r, Id) { return s.live_list(r); }},
      {"GET", "/v1/live/{id}", "One live channel", kRead, false, [](S& s, R& r, Id id) { return s.live_get(r, id); }},
      {"PATCH", "/v1/live/{id}", "Steer a live channel: prompt, pause, evaluations", kCreate, true, [](S& s, R& r, Id id) { return s.live_change(r, id); }},
      {"DELETE", "/v1/live/{id}", "End a live channel", kDelete, true, [](S& s, R& r, Id id) { return s.live_close(r, id); }},
      {"GET", "/v1/live/{id}/stream", "The channel from its live edge on: fragmented MP4", kRead, false, [](S& s, R& r, Id id) { return s.live_stream(r, id); }},
      {"GET", "/v1/live/{id}/events", "State of the channel as Server-Sent Events", kRead, false, [](S& s, R& r, Id id) { return s.live_events(r, id); }},
      {"GET", "/v1/live/{id}/index.m3u8", "The channel as HLS with low-latency parts", kRead, false, [](S& s, R& r, Id id) { return s.live_playlist(r, id); }},
      {"GET", "/v1/live/{id}/init.mp4", "HLS: the start of every segment's file", kRead, false, [](S& s, R& r, Id id) { return s.live_init(r, id); }},
      {"GET", "/v1/live/{id}/segment.m4s", "HLS: a segment, or a part of one", kRead, false, [](S& s, R& r, Id id) { return s.live_segment(r, id); }},
      {"POST", "/v1/votes", "Say which of two videos is better that were shown without their names", kCreate, false, [](S& s, R& r, Id) { return s.vote(r); }},
      {"GET", "/v1/votes", "What the votes say, by the two ways of making that were compared", kRead, false, [](S& s, R& r, Id) { return s.votes(r); }},
      {"GET", "/v1/capabilities", "What this server can make", kRead, false, [](S& s, R&, Id) { return s.capabilities(); }},
      {"GET", "/v1/models", "The model served here", kRead, false,
       [](S& s, R&, Id) {
         return json_response({{"object", "list"}, {"data", {{{"id", s.options.models.front()}, {"object", "model"}, {"created", 0}, {"owned_by", "zoetrope"}}}}});
       }},
      {"GET", "/healthz", "Whether the server lives", kNone, false, [](S&, R&, Id) { return json_response({{"status", "ok"}}); }},
      {"GET", "/readyz", "Whether the server can take and make videos", kNone, true, [](S& s, R&, Id) { return s.ready(); }},
      {"GET", "/metrics", "Metrics for Prometheus", kMetrics, false, [](S& s, R&, Id) { return s.metrics_page(); }},
      {"GET", "/openapi.json", "This document", kNone, false, [](S& s, R&, Id) { return s.openapi(); }},
  };
  return table;
}

}  // namespace zt::http
