#pragma once
// When what ran: spans of a run's stages, evaluations and chunks on the clock, from any thread.
#include <chrono>
#include <mutex>
#include <vector>

#include "pipeline/request.h"

namespace zt {

class Profile {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Lane { engine, encoder };           // the thread that a span ran in
  struct Span {
    Stage stage;
    Lane lane;
    double start, seconds;                       // since the profile began
  };

  void add(Stage stage, Lane lane, Clock::time_point start, Clock::time_point end) {
    const std::lock_guard lock(mutex_);
    spans_.push_back({stage, lane, std::chrono::duration<double>(start - begin_).count(), std::chrono::duration<double>(end - start).count()});
  }
  std::vector<Span> spans() const {
    const std::lock_guard lock(mutex_);
    return spans_;
  }

 private:
  const Clock::time_point begin_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Span> spans_;
};

}  // namespace zt
