#pragma once
// What requests share: values of earlier ones under a hash of all that they were made from. Within one engine, so that model, plan and
// instruction set are the same; a value is the bytes that would be computed again.
#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tensor/tensor.h"
#include "tensor/media.h"

namespace zt {

enum class CacheKind { prompt, condition, adaln };   // prompt embeddings; latents of pictures, videos and sounds; modulations of noise levels
constexpr std::array<const char*, 3> kCacheNames = {"prompt", "condition", "adaln"};

struct CacheStats {
  int64_t hits = 0, misses = 0, bytes = 0;
};

class Caches {
 public:
  // Bytes of prompt and condition together; 0: nothing is kept. The least recently used go first.
  void limit(int64_t bytes);
  bool on() const;
  // What is kept under `key`, or what `make` gives, which is then kept. An exception of `make` leaves nothing behind.
  Tensor get(CacheKind kind, const std::string& key, const std::function<Tensor()>& make);
  void count(CacheKind kind, int64_t hits, int64_t misses, int64_t bytes);   // of what is kept elsewhere (the denoiser's tables)
  std::array<CacheStats, 3> stats() const;                                   // from any thread

 private:
  struct Entry {
    CacheKind kind;
    std::string key;
    Tensor value;
  };
  CacheStats& of(CacheKind kind) { return stats_[static_cast<size_t>(kind)]; }
  void make_room(int64_t bytes);

  mutable std::mutex mutex_;
  std::list<Entry> entries_;   // the latest first
  std::unordered_map<std::string, std::list<Entry>::iterator> index_;
  std::array<CacheStats, 3> stats_{};
  int64_t limit_ = 0, bytes_ = 0;
};

std::string bytes_key(const void* data, size_t bytes);
std::string media_key(const Picture& picture);
std::string media_key(const Sound& sound);

}  // namespace zt
