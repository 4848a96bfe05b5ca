#include "media/source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace zt {

namespace {

int open_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a named pipe must not block here
  if (fd < 0) fail(ErrorKind::request, "{}: cannot be opened ({}); wanted a readable media file", path, std::strerror(errno));
  return fd;
}

}  // namespace

MediaSource::MediaSource(const std::string& path) : MediaSource(open_file(path), path) {}

MediaSource::MediaSource(int descriptor, const std::string& name) : name_(name) {
  file_ = std::shared_ptr<const int>(new int(descriptor), [](const int* p) {
    close(*p);
    delete p;
  });
  struct stat s = {};
  if (fstat(descriptor, &s) != 0 || !S_ISREG(s.st_mode)) fail(ErrorKind::request, "{}: found a folder or device, wanted a media file", name);
  size_ = s.st_size;
  if (size_ == 0) fail(ErrorKind::request, "{}: found an empty file (0 bytes), wanted a picture, video or sound; make it again", name);
}

MediaSource::MediaSource(std::span<const uint8_t> bytes, const std::string& name)
    : name_(name), bytes_(bytes), size_(static_cast<int64_t>(bytes.size())) {
  if (size_ == 0) fail(ErrorKind::request, "{}: found no bytes, wanted a picture, video or sound; send it again", name);
}

size_t MediaSource::read(int64_t offset, std::span<uint8_t> out) const {
  if (offset < 0 || offset >= size_) return 0;
  if (!file_) {
    const size_t n = std::min(out.size(), bytes_.size() - static_cast<size_t>(offset));
    std::memcpy(out.data(), bytes_.data() + offset, n);
    return n;
  }
  ssize_t n = 0;
  do n = pread(*file_, out.data(), out.size(), offset);
  while (n < 0 && errno == EINTR);
  if (n < 0) fail(ErrorKind::resource, "{}: reading at byte {} failed ({})", name_, offset, std::strerror(errno));
  return static_cast<size_t>(n);
}

std::vector<uint8_t> MediaSource::read_all() const {
  std::vector<uint8_t> all(static_cast<size_t>(size_));
  size_t at = 0;
  while (at < all.size()) {
    const size_t n = read(static_cast<int64_t>(at), std::span(all).subspan(at));
    if (n == 0) fail(ErrorKind::request, "{}: found {} bytes, wanted {}; the file shrank while it was read", name_, at, all.size());
    at += n;
  }
  return all;
}

}  // namespace zt
