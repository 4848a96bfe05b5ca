// Progress as Server-Sent Events: "progress" at each change, "preview" when a new picture lies there, "end" with the whole resource.
#include <sys/stat.h>

#include <chrono>

#include "serve/http/service.h"

namespace zt::http {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kTickMs = 100;
constexpr auto kHeartbeat = std::chrono::seconds(15);   // proxies and clients give up on silence

class EventStream {
 public:
  EventStream(Service& s, Job job) : service_(s), job_(std::move(job)) {
    service_.watcher->follow(job_.id);
    if (auto now = service_.store.get(job_.id)) job_ = std::move(*now);   // what changed before anybody followed
    revision_ = job_.revision;
  }
  ~EventStream() { service_.watcher->leave(job_.id); }
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  StreamStep next() {
    StreamStep step;
    step.wait_ms = kTickMs;
    bool deleted = false;
    if (auto state = service_.watcher->newer(job_.id, revision_)) {
      revision_ = state->revision, fresh_ = true;
      if (state->job) job_ = std::move(*state->job);
      else deleted = true;
    }
    preview(step.bytes);
    if (deleted) {
      step.bytes += event("end", {{"id", job_.id}, {"object", "video.deleted"}, {"deleted", true}});
      step.done = true;
    } else if (job_.ended_ms) {
      step.bytes += event("end", video_resource(job_));
      step.done = true;
    } else if (fresh_) {
      step.bytes += event("progress", {{"id", job_.id},
                                       {"status", status_name(job_.status)},
                                       {"progress", job_.percent},
                                       {"stage", job_.stage.empty() ? Json() : Json(job_.stage)},
                                       {"done", job_.done},
                                       {"total", job_.total}});
    }
    fresh_ = false;
    const auto now = Clock::now();
    if (step.bytes.empty() && now - sent_ >= kHeartbeat) step.bytes = ": still here\n\n";
    if (!step.bytes.empty()) sent_ = now;
    return step;
  }

 private:
  std::string event(const char* name, const Json& data) const {
    return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", revision_, name, data.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  void preview(std::string& out) {
    struct stat info {};
    if (stat((service_.options.data + "/" + job_folder(job_.id) + "/preview.png").c_str(), &info) != 0) return;
    const int64_t stamp = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    if (stamp == preview_) return;
    preview_ = stamp;
    out += event("preview", {{"id", job_.id}, {"url", fmt::format("/v1/videos/{}/preview?v={}", job_.id, stamp)}, {"done", job_.done}, {"total", job_.total}});
  }

  Service& service_;
  Job job_;
  int64_t revision_ = 0, preview_ = 0;
  bool fresh_ = true;
  Clock::time_point sent_ = Clock::now();
};

}  // namespace

Response Service::events(const Request& r, const std::string& id) {
  auto stream = std::make_shared<EventStream>(*this, find_job(*this, r, id));
  Response out;
  out.set("Content-Type", "text/event-stream").set("Cache-Control", "no-store").set("X-Accel-Buffering", "no");
  out.stream = [stream] { return stream->next(); };
  return out;
}

}  // namespace zt::http
