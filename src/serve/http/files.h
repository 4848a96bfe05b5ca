#pragma once
// Files of the data folder as answers: opened once, with validators and ranges.
#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>

#include "serve/http/service.h"

namespace zt::http {

struct Open {
  std::shared_ptr<const int> fd;
  struct stat info {};
};
// A regular file; nothing if there is none.
std::optional<Open> open_file(const std::string& path);

// The whole file or the one range that is asked for (RFC 9110), 304 where the client has it, 416 beyond its end. `tag` is quoted.
Response serve_file(const Request& r, const Open& file, const std::string& type, const std::string& tag, const std::string& cache);
// The same of a kept file, which may lie far away: its bytes pass through in pieces.
Response serve_kept(const Request& r, const KeptFile& file, const std::string& type, const std::string& tag, const std::string& cache);

// The growing file of the job's latest claim.
std::string stream_path(const Service& s, const Job& job);

// 404 of a job that failed or was cancelled.
HttpError not_made(const Job& job);

}  // namespace zt::http
