#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace zt {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);   // a pipe that nobody writes to must not stop us
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
    close(fd);
    if (p == MAP_FAILED) fail(ErrorKind::resource, "{}: cannot map {} bytes: {}", path, size_, std::strerror(error));
    data_ = p;
  } else {
    close(fd);
  }
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<void*>(data_), size_);
}

void MappedFile::release_pages() const {
  if (data_) madvise(const_cast<void*>(data_), size_, MADV_DONTNEED);
}

void MappedFile::release_pages(std::span<const std::byte> range) const {
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), first = reinterpret_cast<uintptr_t>(range.data());
  const uintptr_t begin = (first + page - 1) / page * page, end = (first + range.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& o) noexcept
    : path_(std::move(o.path_)), data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)) {}

}  // namespace zt
