#pragma once
// Bump allocation for one step of work: 64-byte aligned, freed all at once by rewinding to a mark. The first block is a wide range of
// addresses, of which only what is touched takes memory: the process holds the peak and not a sum of half-used blocks. Where the system
// gives no such range, and past its end, it grows by blocks. Blocks are kept, so a second step of the same size allocates nothing.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace zt {

class Arena {
 public:
  static constexpr size_t kAlign = 64;
  // Errors: resource if the system has no memory, internal for an impossible size.
  void* allocate(size_t bytes);
  template <class T>
  T* take(int64_t n) {
    return static_cast<T*>(allocate(static_cast<size_t>(n) * sizeof(T)));
  }
  size_t peak_bytes() const { return peak_; }     // largest sum of live allocations
  size_t reserved_bytes() const;                  // what the blocks hold
  void release();                                 // gives the blocks back; nothing may be live

  // Everything allocated during a Scope's life is freed at its end.
  class Scope {
   public:
    explicit Scope(Arena& a) : arena_(a), block_(a.block_), used_(a.used_), live_(a.live_) {}
    ~Scope() { arena_.block_ = block_, arena_.used_ = used_, arena_.live_ = live_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t block_, used_, live_;
  };

 private:
  struct Unmap {
    size_t size;
    void operator()(void* p) const;
  };
  struct Block {
    std::unique_ptr<void, Unmap> data;
    size_t size() const { return data.get_deleter().size; }
  };
  static Block map(size_t size, bool reserve_only);   // without data where the system refuses

  std::vector<Block> blocks_;
  size_t block_ = 0, used_ = 0;   // current block and bytes used in it
  size_t live_ = 0, peak_ = 0;
};

}  // namespace zt
