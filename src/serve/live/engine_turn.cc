#include "serve/live/engine_turn.h"

namespace zt {

void EngineTurn::take() {
  std::unique_lock lock(mutex_);
  const int64_t mine = next_++;
  changed_.wait(lock, [&] { return serving_ == mine; });
}

void EngineTurn::give() {
  {
    const std::lock_guard lock(mutex_);
    ++serving_;
  }
  changed_.notify_all();
}

void EngineTurn::pass() {
  {
    const std::lock_guard lock(mutex_);
    if (next_ == serving_ + 1) return;   // nobody waits
  }
  give();
  take();
}

}  // namespace zt
