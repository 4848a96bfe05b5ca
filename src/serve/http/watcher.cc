#include "serve/http/watcher.h"

#include "base/error.h"

namespace zt::http {

Watcher::Watcher(JobStore& store, std::function<void(const Job&)> on_end) : store_(store), on_end_(std::move(on_end)) {
  thread_ = std::thread([this] { run(); });
}

Watcher::~Watcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  store_.wake();
  thread_.join();
}

void Watcher::run() {
  std::optional<int64_t> revision;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    std::vector<std::pair<Change, std::optional<Job>>> news;
    bool failed = false;
    try {
      if (!revision) revision = store_.revision();
      for (const Change& c : store_.changes(*revision, std::chrono::milliseconds(1000))) {
        news.emplace_back(c, c.deleted ? std::nullopt : store_.get(c.id));
        revision = std::max(*revision, c.revision);
      }
    } catch (const Error&) {
      failed = true;   // a store that is away: what was missed is read when it is back
    }
    for (const auto& [change, job] : news)
      if (job && job->ended_ms && job->revision == change.revision) on_end_(*job);
    lock.lock();
    for (auto& [change, job] : news)
      if (auto it = followed_.find(change.id); it != followed_.end()) it->second.state = {change.revision, std::move(job)};
    if (failed) stopped_.wait_for(lock, std::chrono::milliseconds(500), [this] { return stop_; });
  }
}

std::optional<Watcher::State> Watcher::newer(const std::string& id, int64_t revision) const {
  const std::lock_guard lock(mutex_);
  const auto it = followed_.find(id);
  if (it == followed_.end() || it->second.state.revision <= revision) return std::nullopt;
  return it->second.state;
}

void Watcher::follow(const std::string& id) {
  const std::lock_guard lock(mutex_);
  ++followed_[id].streams;
}

void Watcher::leave(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (auto it = followed_.find(id); it != followed_.end() && --it->second.streams == 0) followed_.erase(it);
}

size_t Watcher::streams() const {
  const std::lock_guard lock(mutex_);
  size_t n = 0;
  for (const auto& [id, f] : followed_) n += static_cast<size_t>(f.streams);
  return n;
}

FollowedJob::FollowedJob(Watcher& watcher, JobStore& store, Job job) : watcher_(watcher), job_(std::move(job)) {
  watcher_.follow(job_.id);
  try {
    if (auto now = store.get(job_.id)) job_ = std::move(*now);   // what changed before anybody followed
  } catch (...) {
    watcher_.leave(job_.id);
    throw;
  }
  revision_ = job_.revision;
}

FollowedJob::~FollowedJob() { watcher_.leave(job_.id); }

bool FollowedJob::refresh() {
  auto state = watcher_.newer(job_.id, revision_);
  if (!state) return false;
  revision_ = state->revision;
  if (state->job) job_ = std::move(*state->job);
  else deleted_ = true;
  return true;
}

}  // namespace zt::http
