#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace zt {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);   // a pipe that nobody writes to must not stop us
  if (fd < 0) fail(ErrorKind::model, "{}: cannot open: {}", path, std::strerror(errno));
  struct stat st {};
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    fail(ErrorKind::model, "{}: not a regular file", path);
  }
  size_ = static_cast<size_t>(st.st_size);
  if (size_ > 0) {
    void* p = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    if (p == MAP_FAILED) {
      close(fd);
      fail(ErrorKind::resource, "{}: cannot map {} bytes: {}", path, size_, std::strerror(error));
    }
    data_ = p;
  }
  fd_ = fd;
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<void*>(data_), size_);
  if (fd_ >= 0) close(fd_);
}

void MappedFile::release_pages(std::span<const std::byte> range) const {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), first = reinterpret_cast<uintptr_t>(range.data());
  const uintptr_t begin = (first + page - 1) / page * page, end = (first + range.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void MappedFile::read(std::span<const std::byte> range, void* out, bool forget, const std::atomic<bool>& stop) const {
  constexpr size_t kPiece = 16 << 20;
  const auto begin = static_cast<size_t>(range.data() - static_cast<const std::byte*>(data_));
  for (size_t done = 0; done < range.size() && !stop.load(std::memory_order_relaxed);) {
    const size_t piece = std::min(kPiece, range.size() - done), end = done + piece, next = std::min(kPiece, range.size() - end);
    if (next) posix_fadvise(fd_, static_cast<off_t>(begin + end), static_cast<off_t>(next), POSIX_FADV_WILLNEED);
    const off_t first = static_cast<off_t>(begin + done);
    while (done < end) {
      const ssize_t n = pread(fd_, static_cast<char*>(out) + done, end - done, static_cast<off_t>(begin + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(ErrorKind::model, "{}: cannot read at byte {}: {}", path_, begin + done, std::strerror(errno));
      if (n == 0) fail(ErrorKind::model, "{}: ends at byte {}, had {} when it was opened; it was cut short while in use", path_, begin + done, size_);
      done += static_cast<size_t>(n);
    }
    if (forget) posix_fadvise(fd_, first, static_cast<off_t>(piece), POSIX_FADV_DONTNEED);
  }
}

MappedFile::MappedFile(MappedFile&& o) noexcept
    : path_(std::move(o.path_)), fd_(std::exchange(o.fd_, -1)), data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}

}  // namespace zt
