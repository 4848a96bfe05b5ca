#include "serve/store/job_store.h"

#include <sys/random.h>

#include <algorithm>

#include "base/error.h"
#include "serve/store/sql.h"

namespace zt {

namespace {

constexpr const char* kStatusNames[] = {"queued", "in_progress", "completed", "failed", "cancelled"};
constexpr const char* kIdPrefix = "video_";

}  // namespace

const char* status_name(JobStatus status) { return kStatusNames[static_cast<size_t>(status)]; }

std::optional<JobStatus> parse_status(const std::string& name) {
  for (size_t i = 0; i < std::size(kStatusNames); ++i)
    if (name == kStatusNames[i]) return static_cast<JobStatus>(i);
  return std::nullopt;
}

std::string new_job_id() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) fail(ErrorKind::resource, "the system gives no random bytes for a job's id");
  std::string id = kIdPrefix;
  for (unsigned char b : bytes) id += fmt::format("{:02x}", b);
  return id;
}

bool is_job_id(const std::string& text) {
  const std::string prefix = kIdPrefix;
  return text.size() == prefix.size() + 32 && text.starts_with(prefix) &&
         std::all_of(text.begin() + static_cast<ptrdiff_t>(prefix.size()), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string job_folder(const std::string& id) { return "jobs/" + id; }

std::unique_ptr<JobStore> open_store(const std::string& url, const StoreOptions& options) {
  std::unique_ptr<SqlDriver> driver;
  if (url.starts_with("sqlite:") && url.size() > 7)
    driver = open_sqlite(url.substr(7), options);
  else if (url.starts_with("postgresql://") || url.starts_with("postgres://"))
    driver = open_postgres(url, options);
  else
    fail(ErrorKind::request, "--store \"{}\": wanted sqlite:PATH or postgresql://USER@HOST/DATABASE", url.substr(0, url.find(':')));
  migrate(*driver);
  return make_sql_store(std::move(driver), options);
}

}  // namespace zt
