#pragma once
// Who may use the engine: jobs and live channels take turns, in the order in which they asked.
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace zt {

class EngineTurn {
 public:
  void take();    // waits
  void give();
  // Between two evaluations or chunks of whoever holds it: lets those who wait go first.
  void pass();

  class Hold {
   public:
    explicit Hold(EngineTurn& turn) : turn_(turn) { turn_.take(); }
    ~Hold() { turn_.give(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    EngineTurn& turn_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t next_ = 0, serving_ = 0;
};

}  // namespace zt
