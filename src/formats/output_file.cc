#include "formats/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace zt {

OutputFile::OutputFile(const std::string& path) : path_(path), temporary_(fmt::format("{}.tmp{}", path, getpid())) {
  file_ = std::fopen(temporary_.c_str(), "wb");
  if (!file_) fail(ErrorKind::request, "{}: cannot write: {}; choose another place", path, std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (file_) std::fclose(file_);
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

void OutputFile::write(const void* data, size_t bytes) {
  if (bytes && std::fwrite(data, 1, bytes, file_) != bytes)
    fail(ErrorKind::request, "{}: cannot write: {}; free some space or choose another place", path_, std::strerror(errno));
}

void OutputFile::seek(int64_t at) {
  if (fseeko(file_, at, SEEK_SET) != 0) fail(ErrorKind::request, "{}: cannot write: {}; free some space or choose another place", path_, std::strerror(errno));
}

void OutputFile::commit() {
  const int closed = std::fclose(file_);
  file_ = nullptr;
  if (closed != 0) fail(ErrorKind::request, "{}: cannot write: {}; free some space or choose another place", path_, std::strerror(errno));
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail(ErrorKind::request, "{}: cannot be replaced: {}; choose another place", path_, std::strerror(errno));
  temporary_.clear();
}

}  // namespace zt
