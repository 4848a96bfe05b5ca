#include "pipeline/caches.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/safetensors.h"

namespace zt {

namespace {

int64_t bytes_of(const Tensor& t) { return t.count() * static_cast<int64_t>(sizeof(float)); }

Tensor copy(const Tensor& t) {
  Tensor out(t.shape());
  std::copy_n(t.data(), t.count(), out.data());
  return out;
}

}  // namespace

void Caches::limit(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
  make_room(0);
}

bool Caches::on() const {
  const std::lock_guard lock(mutex_);
  return limit_ > 0;
}

void Caches::make_room(int64_t bytes) {
  while (!entries_.empty() && bytes_ + bytes > limit_) {
    const Entry& last = entries_.back();
    const int64_t freed = bytes_of(last.value);
    bytes_ -= freed, of(last.kind).bytes -= freed;
    index_.erase(last.key);
    entries_.pop_back();
  }
}

Tensor Caches::get(CacheKind kind, const std::string& key, const std::function<Tensor()>& make) {
  const std::string name = kCacheNames[static_cast<size_t>(kind)] + (" " + key);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = index_.find(name); found != index_.end()) {
      ++of(kind).hits;
      entries_.splice(entries_.begin(), entries_, found->second);
      return copy(entries_.front().value);
    }
    ++of(kind).misses;
  }
  Tensor made = make();
  const std::lock_guard lock(mutex_);
  const int64_t bytes = bytes_of(made);
  if (bytes > limit_ || index_.count(name)) return made;
  make_room(bytes);
  entries_.push_front({kind, name, copy(made)});
  index_[name] = entries_.begin();
  bytes_ += bytes, of(kind).bytes += bytes;
  return made;
}

void Caches::count(CacheKind kind, int64_t hits, int64_t misses, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  CacheStats& s = of(kind);
  s.hits += hits, s.misses += misses, s.bytes = bytes;
}

std::array<CacheStats, 3> Caches::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::string bytes_key(const void* data, size_t bytes) { return sha256({static_cast<const char*>(data), bytes}); }

std::string media_key(const Picture& p) { return fmt::format("{}x{} {} ", p.width, p.height, bytes_key(p.rgb.data(), p.rgb.size())); }

std::string media_key(const Sound& s) {
  std::string key = fmt::format("{} Hz ", s.sample_rate);
  for (const auto& channel : s.channels) key += fmt::format("{} {} ", channel.size(), bytes_key(channel.data(), channel.size() * sizeof(float)));
  return key;
}

}  // namespace zt
