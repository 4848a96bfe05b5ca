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
  EventStream(Service& s, Job job) : service_(s), followed_(*s.watcher, s.store, std::move(job)) {}

  StreamStep next() {
    StreamStep step;
    step.wait_ms = kTickMs;
    fresh_ = followed_.refresh() || fresh_;
    const Job& job = followed_.job();
    preview(step.bytes);
    if (followed_.deleted()) {
      step.bytes += event("end", {{"id", job.id}, {"object", "video.deleted"}, {"deleted", true}});
      step.done = true;
    } else if (job.ended_ms) {
      step.bytes += event("end", video_resource(job));
      step.done = true;
    } else if (fresh_) {
      step.bytes += event("progress", {{"id", job.id},
                                       {"status", status_name(job.status)},
                                       {"progress", job.percent},
                                       {"stage", job.stage.empty() ? Json() : Json(job.stage)},
                                       {"done", job.done},
                                       {"total", job.total}});
    }
    fresh_ = false;
    const auto now = Clock::now();
    if (step.bytes.empty() && now - sent_ >= kHeartbeat) step.bytes = ": still here\n\n";
    if (!step.bytes.empty()) sent_ = now;
    return step;
  }

 private:
  std::string event(const char* name, const Json& data) const {
    return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", followed_.revision(), name, data.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  void preview(std::string& out) {
    const Job& job = followed_.job();
    struct stat info {};
    if (stat((service_.options.data + "/" + job_folder(job.id) + "/preview.png").c_str(), &info) != 0) return;
    const int64_t stamp = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    if (stamp == preview_) return;
    preview_ = stamp;
    out += event("preview", {{"id", job.id}, {"url", fmt::format("/v1/videos/{}/preview?v={}", job.id, stamp)}, {"done", job.done}, {"total", job.total}});
  }

  Service& service_;
  FollowedJob followed_;
  int64_t preview_ = 0;
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
