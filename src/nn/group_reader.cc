#include "nn/group_reader.h"

#include <chrono>

namespace zt {

GroupReader::GroupReader(const Weights& weights, std::vector<Group> groups, bool forget)
    : weights_(weights), groups_(std::move(groups)), forget_(forget) {}

GroupReader::~GroupReader() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true, stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void GroupReader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return reading_ || ended_; });
    if (ended_) return;
    Slot& slot = slots_[1 - current_];
    lock.unlock();
    std::exception_ptr error;
    try {
      weights_.fetch(groups_[slot.group], slot.staging, forget_, stop_);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    slot.error = error;
    reading_ = false;
    changed_.notify_all();
  }
}

// Has the thread read `group` into the slot that is not current. It is idle.
void GroupReader::order(size_t group, std::unique_lock<std::mutex>& held) {
  if (!thread_.joinable()) {
    held.unlock();
    try {
      thread_ = std::thread([this] { work(); });
    } catch (const std::system_error& e) {
      fail(ErrorKind::resource, "no thread could be started to read weights ({}); end other programs or raise the limit of threads", e.what());
    }
    held.lock();
  }
  slots_[1 - current_].group = group, slots_[1 - current_].error = nullptr;
  reading_ = true;
  changed_.notify_all();
}

const Staging& GroupReader::acquire(size_t i, size_t next, const std::atomic<bool>* cancel) {
  std::unique_lock lock(mutex_);
  auto wait = [&] {
    while (reading_) {
      if (cancel && cancel->load(std::memory_order_relaxed)) throw Cancelled();
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
  };
  if (slots_[current_].group != i) {
    wait();
    if (slots_[1 - current_].group != i) order(i, lock), wait();
    if (Slot& s = slots_[1 - current_]; s.error) {
      const std::exception_ptr error = s.error;
      s.group = kNone, s.error = nullptr;
      std::rethrow_exception(error);
    }
    current_ = 1 - current_;
  }
  if (next != kNone && next != i && !reading_ && slots_[1 - current_].group != next) order(next, lock);
  return slots_[current_].staging;
}

}  // namespace zt
