#include "base/threads.h"

#include <sched.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>

#include "base/environment.h"
#include "base/error.h"

namespace zt {

constinit thread_local Threads::Place Threads::place_;

namespace {

constexpr int kSpins = 4000;  // about 20-50 us: most gaps inside a step are shorter

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// cgroup v2 "quota period" in microseconds; 0 if unlimited or absent.
int cgroup_cores() {
  std::ifstream f("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(f >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::max(1, static_cast<int>(std::strtod(quota.c_str(), nullptr) / period + 0.5));
}

}  // namespace

int available_cores() {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
  if (int q = cgroup_cores(); q > 0) n = std::min(n, q);
  return std::max(1, n);
}

int default_thread_count() {
  const char* text = wanted_threads();
  if (!text) return available_cores();
  char* end = nullptr;
  long n = std::strtol(text, &end, 10);
  if (*end || n < 1 || n > 256) fail(ErrorKind::request, "ZT_THREADS is '{}'; give a number from 1 to 256", text);
  return static_cast<int>(n);
}

Threads::Threads(int count) {
  try {
    for (int i = 1; i < count; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& e) {
    size_t had = workers_.size();
    join();
    fail(ErrorKind::resource, "only {} of {} threads could be started ({}); set ZT_THREADS lower", had + 1, count, e.what());
  }
}

Threads::~Threads() { join(); }

void Threads::join() {
  stop_ = true;
  {
    std::lock_guard lock(mutex_);
    epoch_.fetch_add(1);
  }
  wake_.notify_all();
  for (auto& t : workers_) t.join();
  workers_.clear();
}

// A worker that is not scheduled in time costs nothing: run() waits only for those that are inside when no ranges are left.
void Threads::run(int64_t n, int64_t grain, Call call, void* body) {
  task_ = {n, grain, call, body};
  next_.store(0, std::memory_order_relaxed);
  gate_.store(kOpen, std::memory_order_release);
  epoch_.fetch_add(1);  // sequentially consistent: pairs with sleeping_ in work()
  if (sleeping_.load() > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  const Place outside = place_;
  place_ = {this, 0};
  drain(0);
  place_ = outside;
  uint32_t inside = gate_.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
  for (int i = 0; inside; inside = gate_.load(std::memory_order_acquire))
    if (++i < kSpins) relax();
    else gate_.wait(inside, std::memory_order_acquire);   // it may have lost its core to another thread: this one's is free then
}

bool Threads::enter() {
  uint32_t gate = gate_.load(std::memory_order_relaxed);
  while (gate & kOpen)
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  return false;
}

void Threads::drain(int worker) {
  const Task t = task_;
  for (;;) {
    int64_t i = next_.fetch_add(t.grain, std::memory_order_relaxed);
    if (i >= t.n) return;
    t.call(t.body, i, std::min(t.n, i + t.grain), worker);
  }
}

void Threads::work(int worker) {
  place_ = {this, worker};
  uint64_t seen = 0;
  for (;;) {
    for (int i = 0; epoch_.load(std::memory_order_acquire) == seen && i < kSpins; ++i) relax();
    if (epoch_.load() == seen) {
      std::unique_lock lock(mutex_);
      sleeping_.fetch_add(1);
      wake_.wait(lock, [&] { return epoch_.load() != seen; });
      sleeping_.fetch_sub(1);
    }
    seen = epoch_.load();
    if (stop_) return;
    if (!enter()) continue;
    drain(worker);
    if (gate_.fetch_sub(1, std::memory_order_release) == 1) gate_.notify_one();
  }
}

}  // namespace zt
