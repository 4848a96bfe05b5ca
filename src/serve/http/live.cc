// Live channels: open, steer, end, watch.
#include <tuple>

#include "serve/http/body.h"
#include "serve/http/fields.h"
#include "serve/http/service.h"
#include "serve/job.h"
#include "serve/options.h"

namespace zt::http {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTickMs = 30;
constexpr auto kHeartbeat = std::chrono::seconds(15);
constexpr auto kEventPause = std::chrono::milliseconds(200);   // between two events

// A live channel's fields, of POST and PATCH.
struct LiveFields {
  std::optional<std::string> prompt;
  std::optional<bool> paused;
  std::optional<int64_t> evaluations, seed;
  std::optional<double> lead_seconds;
  int64_t width = 0, height = 0;
  Json lora;                                         // as it came
};

int64_t integer(const Json& v, const char* name, int64_t low, int64_t high) {
  const bool huge = v.is_number_unsigned() && v.get<uint64_t>() > static_cast<uint64_t>(high);
  if (!v.is_number_integer() || huge || v.get<int64_t>() < low || v.get<int64_t>() > high)
    refuse(name, "{} is {}; wanted a whole number from {} to {}", name, v.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 40), low, high);
  return v.get<int64_t>();
}

void read_size(const Json& v, LiveFields& f) {
  const auto size = parse_size(v.is_string() ? v.get<std::string>() : "");
  if (!size) refuse("size", "size is not like \"192x128\"");
  std::tie(f.width, f.height) = *size;
}

LiveFields read_live(const Request& r, bool create) {
  const Body body = read_body(r);
  if (body.text) throw HttpError(415, "unsupported_media_type", "Content-Type", "a live channel is described in JSON");
  LiveFields f;
  for (const auto& [key, v] : body.fields.items()) {
    if (key == "prompt") {
      if (!v.is_string() || v.get<std::string>().empty() || v.get<std::string>().size() > 32000) refuse("prompt", "prompt is not a text of 1 to 32000 bytes");
      f.prompt = v.get<std::string>();
    } else if (key == "evaluations") {
      f.evaluations = integer(v, "evaluations", 1, 1000);
    } else if (key == "paused") {
      if (!v.is_boolean()) refuse("paused", "paused is neither true nor false");
      f.paused = v.get<bool>();
    } else if (create && key == "seed") {
      f.seed = integer(v, "seed", 0, INT64_MAX);
    } else if (create && key == "size") {
      read_size(v, f);
    } else if (create && key == "lead_seconds") {
      if (!v.is_number() || !(v.get<double>() >= 2 && v.get<double>() <= 60)) refuse("lead_seconds", "lead_seconds is not a number from 2 to 60");
      f.lead_seconds = v.get<double>();
    } else if (create && key == "lora") {
      f.lora = v;
    } else {
      throw HttpError(400, "unknown_field", key.substr(0, 120),
                      create ? "a live channel takes prompt, seed, size, evaluations, lead_seconds, paused and lora"
                             : "of a live channel prompt, evaluations and paused can be changed");
    }
  }
  return f;
}

// Adapters as POST /v1/videos takes them, and the evaluations that they want where the request counts none.
void read_adapters(const LiveFields& f, const FieldRules& rules, LiveSettings& s) {
  Body body;
  body.fields = {{"lora", f.lora}};
  const CreateFields read = read_fields(body, rules);
  s.lora = read.options.value("lora", std::vector<std::string>());
  zt::Request request;
  try {
    use_own_adapters(s.lora, rules.index.folder, f.evaluations.has_value(), request);
  } catch (const Error& e) {
    if (e.kind != ErrorKind::request) throw;
    rethrow_named(e.what(), read);
  }
  if (request.schedule.evaluations && !f.evaluations) s.evaluations = *request.schedule.evaluations;
}

// Sends the channel to one viewer: the init segment, then fragments on a clock that begins at 0.
class Viewer {
 public:
  explicit Viewer(std::shared_ptr<LiveChannel> channel) : channel_(std::move(channel)) { channel_->join(); }
  ~Viewer() { channel_->leave(); }
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;

  StreamStep next() {
    StreamStep step;
    step.wait_ms = kTickMs;
    if (index_ < 0) {
      const std::string init = channel_->init();
      if (init.empty()) {
        step.done = channel_->ended();
        return step;
      }
      index_ = channel_->live_edge();
      step.bytes = init, step.wait_ms = 0;
      return step;
    }
    const LiveChannel::Piece piece = channel_->piece(index_);
    if (piece.lost) {
      step.done = true;
    } else if (piece.fragment) {
      if (!first_) first_ = piece.fragment;
      step.bytes = rebased(*piece.fragment, *first_, channel_->timescales());
      step.wait_ms = 0, ++index_;
    } else {
      step.done = channel_->ended();
    }
    return step;
  }

 private:
  std::shared_ptr<LiveChannel> channel_;
  std::shared_ptr<const Fragment> first_;
  int64_t index_ = -1;
};

class LiveEvents {
 public:
  explicit LiveEvents(std::shared_ptr<LiveChannel> channel) : channel_(std::move(channel)) {}

  StreamStep next() {
    StreamStep step;
    step.wait_ms = 100;
    const auto now = Clock::now();
    const int64_t revision = channel_->revision();
    const bool ended = channel_->ended();
    // Playback moves without a change of anything else: once a second.
    if (ended || now - sent_ >= (revision != seen_ ? kEventPause : std::chrono::seconds(1))) {
      seen_ = revision, sent_ = now;
      step.bytes = fmt::format("id: {}\nevent: {}\ndata: {}\n\n", revision, ended ? "end" : "state",
                               channel_->resource().dump(-1, ' ', false, Json::error_handler_t::replace));
    }
    step.done = ended;
    return step;
  }

 private:
  std::shared_ptr<LiveChannel> channel_;
  int64_t seen_ = -1;
  Clock::time_point sent_{};
};

Response stream_response(const char* type) {
  Response out;
  out.set("Content-Type", type).set("Cache-Control", "no-store").set("X-Accel-Buffering", "no");
  return out;
}

}  // namespace

LiveHub& Service::live() {
  if (!live_) throw HttpError(503, "live_unavailable", "", "this server makes nothing itself (--workers 0), so it has no live channels");
  return *live_;
}

std::shared_ptr<LiveChannel> Service::find_live(const Request& r, const std::string& id) {
  const auto mine = owner(r);
  std::shared_ptr<LiveChannel> channel = is_live_id(id) ? live().find(id) : nullptr;
  if (!channel || (mine && channel->settings().owner != *mine)) throw HttpError(404, "not_found", "id", fmt::format("there is no live channel {}", id.substr(0, 60)));
  return channel;
}

Response Service::live_create(Request& r) {
  const LiveFields f = read_live(r, true);
  if (!f.prompt) throw HttpError(400, "missing_field", "prompt", "prompt is missing; say what the channel shows");
  LiveSettings s;
  s.owner = r.caller, s.prompt = *f.prompt;
  s.seed = static_cast<uint64_t>(f.seed.value_or(0)), s.width = f.width, s.height = f.height;
  s.evaluations = f.evaluations.value_or(s.evaluations), s.lead_seconds = f.lead_seconds.value_or(s.lead_seconds), s.paused = f.paused.value_or(false);
  read_adapters(f, {index, options.models, options.plan, r.lenient}, s);
  std::shared_ptr<LiveChannel> channel;
  try {
    channel = live().open(s);
  } catch (const Error& e) {
    if (e.kind == ErrorKind::request) throw HttpError(400, "invalid_value", "size", e.what());
    if (e.kind != ErrorKind::resource) throw;
    HttpError full(429, "too_many_channels", "", e.what());
    full.retry_after = 10;
    throw full;
  }
  Response out = json_response(channel->resource(), 201);
  return std::move(out.set("Location", "/v1/live/" + channel->settings().id));
}

Response Service::live_list(const Request& r) {
  const auto mine = owner(r);
  Json data = Json::array();
  if (live_)
    for (const auto& c : live_->list())
      if (!mine || c->settings().owner == *mine) data.push_back(c->resource());
  return json_response({{"object", "list"}, {"data", data}});
}

Response Service::live_get(const Request& r, const std::string& id) { return json_response(find_live(r, id)->resource()); }

Response Service::live_change(Request& r, const std::string& id) {
  const auto channel = find_live(r, id);
  const LiveFields f = read_live(r, false);
  live().change(*channel, f.prompt, f.paused, f.evaluations);
  return json_response(channel->resource());
}

Response Service::live_close(const Request& r, const std::string& id) {
  const auto channel = find_live(r, id);
  live().close(id);
  return json_response({{"id", id}, {"object", "live.deleted"}, {"deleted", true}});
}

Response Service::live_stream(const Request& r, const std::string& id) {
  auto viewer = std::make_shared<Viewer>(find_live(r, id));
  Response out = stream_response("video/mp4");
  out.stream = [viewer] { return viewer->next(); };
  return out;
}

Response Service::live_events(const Request& r, const std::string& id) {
  auto events = std::make_shared<LiveEvents>(find_live(r, id));
  Response out = stream_response("text/event-stream");
  out.stream = [events] { return events->next(); };
  return out;
}

}  // namespace zt::http
