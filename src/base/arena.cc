#include "base/arena.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/error.h"

namespace zt {

namespace {
constexpr size_t kReserve = size_t{64} << 30;
constexpr size_t kMinBlock = size_t{8} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMost = size_t{1} << 46;   // more is a negative count or an overflow
}  // namespace

void Arena::Unmap::operator()(void* p) const { munmap(p, size); }

Arena::Block Arena::map(size_t size, bool reserve_only) {
  size = (size + kHugePage - 1) / kHugePage * kHugePage;
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (reserve_only ? MAP_NORESERVE : 0), -1, 0);
  if (p == MAP_FAILED) return {{nullptr, Unmap{0}}};
  madvise(p, size, MADV_HUGEPAGE);   // hints: fewer TLB misses where the system allows it; scratch tells a core dump nothing
  madvise(p, size, MADV_DONTDUMP);
  return {{p, Unmap{size}}};
}

void* Arena::allocate(size_t bytes) {
  if (bytes > kMost) fail(ErrorKind::internal, "a working buffer of {} bytes was asked for; a size went wrong", bytes);
  bytes = (std::max<size_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
  while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].size()) ++block_, used_ = 0;
  if (block_ == blocks_.size()) {
    Block fresh = blocks_.empty() && bytes <= kReserve ? map(kReserve, true) : Block{{nullptr, Unmap{0}}};
    if (!fresh.data) {
      const size_t last = blocks_.empty() ? 0 : blocks_.back().size();
      const size_t size = std::max({bytes, kMinBlock, std::min(last * 2, size_t{256} << 20)});
      fresh = map(size, false);
      if (!fresh.data) fail(ErrorKind::resource, "out of memory: a working buffer of {} MiB could not be had; ask for a smaller or shorter clip", size >> 20);
    }
    blocks_.push_back(std::move(fresh));
    used_ = 0;
  }
  void* out = static_cast<char*>(blocks_[block_].data.get()) + used_;
  used_ += bytes;
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  return out;
}

size_t Arena::reserved_bytes() const {
  size_t n = 0;
  for (auto& b : blocks_) n += b.size();
  return n;
}

void Arena::release() { blocks_.clear(), block_ = used_ = live_ = 0; }

}  // namespace zt
