#include "serve/store/result_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"

namespace fs = std::filesystem;

namespace zt {

namespace {

// A file is kept where it was made.
class FolderResults final : public ResultStore {
 public:
  explicit FolderResults(std::string data) : data_(std::move(data)) {}
  bool remote() const override { return false; }
  bool keep(const std::string&, const std::string&, const std::string&, const std::atomic<bool>*) override { return true; }
  std::optional<KeptFile> open(const std::string& name) override {
    const int fd = ::open((data_ + "/" + name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return std::nullopt;
    KeptFile out;
    out.fd = std::shared_ptr<const int>(new int(fd), [](const int* p) { close(*p), delete p; });
    struct stat info {};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    out.bytes = static_cast<uint64_t>(info.st_size);
    return out;
  }
  bool fetch(const std::string& name, const std::string& path) override {
    std::error_code ec;
    const fs::path from = data_ + "/" + name;
    fs::create_directories(fs::path(path).parent_path(), ec);
    fs::create_hard_link(from, path, ec);
    if (ec) fs::copy_file(from, path, ec);
    if (!ec) return true;
    if (!fs::exists(from)) return false;
    fail(ErrorKind::resource, "the data folder cannot be written: {}", ec.message());
  }
  void forget(const std::string& name, const std::string& except) override {
    std::error_code ec;
    if (except.empty()) {
      fs::remove_all(data_ + "/" + name, ec);
      return;
    }
    for (const auto& e : fs::directory_iterator(data_ + "/" + name, ec))
      if (const std::string run = e.path().filename().string(); run.starts_with("run.") && run != except) fs::remove_all(e.path(), ec);
  }
  void sweep(const std::function<bool(const std::string&, const std::string&)>&) override {}   // sweep_data_folder() does
  std::string problem() override { return ""; }                                                // a worker probes the folder before each job

 private:
  std::string data_;
};

}  // namespace

std::unique_ptr<ResultStore> open_results(const std::string& url, const std::string& data) {
  if (url.empty()) return std::make_unique<FolderResults>(data);
  if (!url.starts_with("s3://")) fail(ErrorKind::request, "--results {}: wanted s3://BUCKET or s3://BUCKET/PREFIX", url);
  return open_s3_results(url, data);
}

}  // namespace zt
