#include "base/behind.h"

#include <system_error>

namespace zt {

Behind::Behind(bool beside, size_t most) : most_(most) {
  if (!beside) return;
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error&) {
  }
}

Behind::~Behind() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Behind::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    job = nullptr;   // what it holds goes before the next is asked for
    lock.lock();
    busy_ = false;
    if (error) error_ = error, jobs_.clear();
    changed_.notify_all();
  }
}

void Behind::rethrow() {
  if (!error_) return;
  const std::exception_ptr error = error_;
  error_ = nullptr;
  std::rethrow_exception(error);
}

void Behind::push(std::function<void()> job) {
  if (!thread_.joinable()) return job();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || jobs_.size() < most_; });
  rethrow();
  jobs_.push_back(std::move(job));
  changed_.notify_all();
}

void Behind::finish() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
  rethrow();
}

}  // namespace zt
