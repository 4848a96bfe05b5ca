#pragma once
// A file that gets its name only when it is whole: written under another name beside it, renamed at the end, gone otherwise.
#include <cstdint>
#include <cstdio>
#include <string>

namespace zt {

class OutputFile {
 public:
  // Errors of every call (kind request, naming the file): it cannot be written, the disk is full.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t bytes);
  void seek(int64_t at);
  void commit();
  const std::string& path() const { return path_; }

 private:
  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
};

}  // namespace zt
