#pragma once
// Work handed over in order to one thread behind the caller: encoding beside decoding. The calls and their order are those of a
// direct run, so the result has the same bytes.
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace zt {

class Behind {
 public:
  // With `beside` false every job runs in the caller. At most `most` jobs wait; push() blocks then, so memory is bounded.
  explicit Behind(bool beside, size_t most = 2);
  // Jobs that have not begun are dropped.
  ~Behind();
  Behind(const Behind&) = delete;
  Behind& operator=(const Behind&) = delete;

  // Rethrows what an earlier job threw. A thread that cannot be started is no error: the job runs in the caller.
  void push(std::function<void()> job);
  // Waits until all jobs are done; rethrows.
  void finish();

 private:
  void work();
  void rethrow();

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false, stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace zt
