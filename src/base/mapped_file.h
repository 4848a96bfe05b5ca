#pragma once
// A whole file, read-only, memory-mapped. Unmapped at the end of its life.
#include <atomic>
#include <cstddef>
#include <span>
#include <string>

namespace zt {

class MappedFile {
 public:
  // Errors (kind model): no such file, not a regular file, unreadable.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& o) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  // Gives the whole pages inside `range`, a part of bytes(), back to the system; they come again from the file when touched. Advice only.
  void release_pages(std::span<const std::byte> range) const;
  // `range`, a part of bytes(), read into `out` without touching the mapping: a file that was cut short since is an error (kind model)
  // that says so, not a signal. forget: what was read need not stay in the system's cache of files, nor does it take more of that than
  // a few pieces meanwhile. Stops early, the rest unread, once `stop` is set.
  void read(std::span<const std::byte> range, void* out, bool forget, const std::atomic<bool>& stop) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
  const void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace zt
