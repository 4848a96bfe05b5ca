#pragma once
// Groups of tensors (a block of a model) that are read from disk each time they are wanted, the next one while the last is in use.
// The thread of its own only reads: values are decoded and packed by whoever asked, on the threads that compute, so that reading
// overlaps computing and no more threads compute than there are.
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "nn/weights.h"

namespace zt {

class GroupReader {
 public:
  using Group = std::vector<const Stored*>;
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // forget: as MappedFile::read. `weights` must outlive this; it may be used meanwhile.
  GroupReader(const Weights& weights, std::vector<Group> groups, bool forget);
  GroupReader(const GroupReader&) = delete;
  GroupReader& operator=(const GroupReader&) = delete;
  ~GroupReader();

  // Group i, valid until the next call; `next` (or kNone) is read meanwhile. Two groups are in memory at most, in the same two buffers.
  // Errors: those of WeightFiles::read, of this group only; a later call tries again. Throws Cancelled while it waits, if `cancel` is set.
  const Staging& acquire(size_t i, size_t next, const std::atomic<bool>* cancel);

 private:
  struct Slot {
    Staging staging;
    size_t group = kNone;         // what it holds, or is to hold
    std::exception_ptr error;     // why it does not
  };
  void work();
  void order(size_t group, std::unique_lock<std::mutex>& held);

  const Weights& weights_;
  std::vector<Group> groups_;
  bool forget_;
  Slot slots_[2];
  int current_ = 0;               // of the last acquire; the other is the thread's while reading_
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reading_ = false, ended_ = false;
  std::atomic<bool> stop_{false};
  std::thread thread_;            // started by the first order
};

}  // namespace zt
