#pragma once
// One thread that follows the store's changes for the whole server: what streams of progress send, what the metrics count.
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "serve/store/job_store.h"

namespace zt::http {

class Watcher {
 public:
  // `on_end` is called once for each job that is seen to end.
  Watcher(JobStore& store, std::function<void(const Job&)> on_end);
  ~Watcher();

  struct State {
    int64_t revision = 0;
    std::optional<Job> job;   // nothing: deleted
  };
  // The latest of a job, as far as it was seen since somebody asked for it first; nothing if it has not changed since `revision`.
  std::optional<State> newer(const std::string& id, int64_t revision) const;
  // Between these two a job is followed.
  void follow(const std::string& id);
  void leave(const std::string& id);
  size_t streams() const;

 private:
  struct Followed {
    int streams = 0;
    State state;
  };
  void run();

  JobStore& store_;
  std::function<void(const Job&)> on_end_;
  mutable std::mutex mutex_;
  std::map<std::string, Followed> followed_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

// A job as it is, for as long as this lives.
class FollowedJob {
 public:
  // Errors (resource): the store is away.
  FollowedJob(Watcher& watcher, JobStore& store, Job job);
  ~FollowedJob();
  FollowedJob(const FollowedJob&) = delete;
  FollowedJob& operator=(const FollowedJob&) = delete;

  bool refresh();                                   // whether it has changed since the last call
  const Job& job() const { return job_; }
  int64_t revision() const { return revision_; }
  bool deleted() const { return deleted_; }
  bool ended() const { return deleted_ || job_.ended_ms != 0; }

 private:
  Watcher& watcher_;
  Job job_;
  int64_t revision_ = 0;
  bool deleted_ = false;
};

}  // namespace zt::http
