#pragma once
// Where the files of finished clips are kept: the data folder itself, or an S3-compatible store. Names are paths relative to the data folder
// ("jobs/ID/run.TOKEN/video.mp4"), the same in both. Every call may come from any thread. Errors of every call: resource (the store cannot be
// reached or refuses; the message says which, and holds no secret).
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace zt {

// A kept file. One of `fd` and `read` is set.
struct KeptFile {
  uint64_t bytes = 0;
  std::shared_ptr<const int> fd;                                              // a local one; closed with its last owner
  std::function<std::string(uint64_t offset, size_t bytes)> read;             // exactly that many bytes, from within the file
};

class ResultStore {
 public:
  virtual ~ResultStore() = default;
  virtual bool remote() const = 0;           // files that are kept need not stay in the data folder
  // Keeps the data folder's file `name`, which is whole and on the disk; it is durable when this returns. Blocks for retries up to half a minute.
  // False: `cancel` was set meanwhile. Errors also: resource (too large for the store).
  virtual bool keep(const std::string& name, const std::string& type, const std::string& sha256, const std::atomic<bool>* cancel) = 0;
  virtual std::optional<KeptFile> open(const std::string& name) = 0;          // nullopt: there is none
  // Copies a kept file to a path beside which nothing is left if it fails. False: there is none.
  virtual bool fetch(const std::string& name, const std::string& path) = 0;
  // Removes what is kept below the folder `name`, but for its sub-folder `except` if that is not empty.
  virtual void forget(const std::string& name, const std::string& except = "") = 0;
  // Removes what is older than an hour and, by `wanted`, of no use any more.
  virtual void sweep(const std::function<bool(const std::string& job, const std::string& run)>& wanted) = 0;
  virtual std::string problem() = 0;         // why it cannot be used, "" = it can; asks at most every few seconds
};

// "" (the data folder) or "s3://BUCKET[/PREFIX]" with the AWS_ variables of the environment. Errors (request): malformed, no credentials.
std::unique_ptr<ResultStore> open_results(const std::string& url, const std::string& data);

std::unique_ptr<ResultStore> open_s3_results(const std::string& url, const std::string& data);   // in s3_results.cc

}  // namespace zt
