#pragma once
// A fixed pool of workers. The caller is worker 0; count() - 1 further threads help. No task depends on how many there are:
// results must be the same for every thread count, so bodies own disjoint outputs and never reduce across workers.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace zt {

// Processors this process may run on, capped by a cgroup quota where there is one.
int available_cores();
// ZT_THREADS if set (1..256), else available_cores().
int default_thread_count();

class Threads {
 public:
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, worker) over disjoint ranges of at most `grain` that cover [0, n); returns when all are done.
  // body must not throw. A call from inside a body runs inline, range by range, as the worker that it is in. Not reentrant from two threads: one pool, one owner.
  template <class Body>
  void parallel_for(int64_t n, int64_t grain, Body&& body) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    if (workers_.empty() || n <= grain || place_.pool) {
      const int worker = place_.pool == this ? place_.worker : 0;   // scratch chosen by worker stays this thread's own
      for (int64_t i = 0; i < n; i += grain) body(i, n - i < grain ? n : i + grain, worker);
      return;
    }
    auto call = [](void* b, int64_t i, int64_t j, int w) { (*static_cast<std::remove_reference_t<Body>*>(b))(i, j, w); };
    run(n, grain, call, const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Call = void (*)(void*, int64_t, int64_t, int);
  void run(int64_t n, int64_t grain, Call call, void* body);
  void work(int worker);
  void join();
  void drain(int worker);
  bool enter();

  struct Task {
    int64_t n = 0, grain = 1;
    Call call = nullptr;
    void* body = nullptr;
  };
  std::vector<std::thread> workers_;
  Task task_;
  std::atomic<int64_t> next_{0};
  std::atomic<uint64_t> epoch_{0};
  static constexpr uint32_t kOpen = 1u << 31;
  std::atomic<uint32_t> gate_{0};   // the workers inside, and whether more may enter
  std::atomic<int> sleeping_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  struct Place {   // where a thread is: the pool whose body it runs, and as which worker
    const Threads* pool = nullptr;
    int worker = 0;
  };
  // constinit: no wrapper decides at each access whether to initialize it (g++ 12 under -fsanitize=undefined takes that wrapper for null)
  static constinit thread_local Place place_;
};

}  // namespace zt
