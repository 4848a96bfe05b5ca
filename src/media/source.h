#pragma once
// Where media bytes come from: a local file or memory. Uploads are not trusted, so FFmpeg reads through this only: it opens no
// other file and no address, whatever a playlist or a container says.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace zt {

class MediaSource {
 public:
  // A regular file that holds at least one byte. Errors (request): absent, unreadable, a folder or device, empty.
  MediaSource(const std::string& path);
  MediaSource(const char* path) : MediaSource(std::string(path)) {}
  // Takes over a descriptor of a regular file; `name` is what messages call it. Errors (request): not a regular file, empty.
  MediaSource(int descriptor, const std::string& name);
  // Bytes that outlive the source; `name` is what messages call them. Errors (request): no bytes.
  MediaSource(std::span<const uint8_t> bytes, const std::string& name);

  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }
  int descriptor() const { return file_ ? *file_ : -1; }  // -1: bytes in memory
  // Up to out.size() bytes from `offset`; how many there were. Errors (resource): the disk fails.
  size_t read(int64_t offset, std::span<uint8_t> out) const;
  std::vector<uint8_t> read_all() const;

 private:
  std::string name_;
  std::shared_ptr<const int> file_;  // descriptor, closed with its last owner
  std::span<const uint8_t> bytes_;
  int64_t size_ = 0;
};

}  // namespace zt
