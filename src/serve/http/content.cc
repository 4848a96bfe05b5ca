// Bytes of finished videos: variants, ranges, validators, caching; the preview and the growing stream of an unfinished one.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <filesystem>

#include "serve/http/service.h"

namespace zt::http {

namespace {

struct Open {
  std::shared_ptr<const int> fd;
  struct stat info {};
};

std::optional<Open> open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  Open out{std::shared_ptr<const int>(new int(fd), [](const int* p) { close(*p), delete p; }), {}};
  if (fstat(fd, &out.info) != 0 || !S_ISREG(out.info.st_mode)) return std::nullopt;
  return out;
}

struct ByteRange {
  uint64_t first = 0, last = 0;
};
enum class RangeKind { none, one, impossible };

// One range of RFC 9110; several, or what is malformed, are as if the header were not there.
RangeKind parse_range(const std::string& text, uint64_t size, ByteRange& out) {
  if (!text.starts_with("bytes=") || text.find(',') != std::string::npos) return RangeKind::none;
  const std::string_view spec = std::string_view(text).substr(6);
  const size_t dash = spec.find('-');
  if (dash == std::string_view::npos) return RangeKind::none;
  auto number = [](std::string_view s, uint64_t& n) {
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
    return error == std::errc() && end == s.data() + s.size();
  };
  const std::string_view a = spec.substr(0, dash), b = spec.substr(dash + 1);
  if (a.empty()) {   // the last N bytes
    uint64_t n = 0;
    if (!number(b, n)) return RangeKind::none;
    if (n == 0 || size == 0) return RangeKind::impossible;
    out = {size - std::min(n, size), size - 1};
    return RangeKind::one;
  }
  if (!number(a, out.first)) return RangeKind::none;
  out.last = size ? size - 1 : 0;
  uint64_t last = 0;
  if (!b.empty()) {
    if (!number(b, last) || last < out.first) return RangeKind::none;
    out.last = std::min(out.last, last);
  }
  return out.first < size ? RangeKind::one : RangeKind::impossible;
}

bool lists_tag(const std::string& header, const std::string& tag) {
  return header == "*" || header.find(tag) != std::string::npos;   // a tag is quoted, so no other one holds it
}

Response serve_file(const Request& r, const Open& file, const std::string& type, const std::string& tag, const std::string& cache) {
  const uint64_t size = static_cast<uint64_t>(file.info.st_size);
  Response out;
  out.set("ETag", tag).set("Cache-Control", cache).set("Accept-Ranges", "bytes");
  if (const std::string* known = r.header("if-none-match"); known && lists_tag(*known, tag)) {
    out.status = 304;
    return out;
  }
  out.set("Content-Type", type);
  ByteRange range{0, size ? size - 1 : 0};
  const std::string *asked = r.header("range"), *only_if = r.header("if-range");
  const RangeKind kind = asked && (!only_if || *only_if == tag) ? parse_range(*asked, size, range) : RangeKind::none;
  if (kind == RangeKind::impossible) {
    Response bad = error_response(416, "range_not_satisfiable", "Range", fmt::format("the file has {} bytes", size));
    return std::move(bad.set("Content-Range", fmt::format("bytes */{}", size)));
  }
  if (kind == RangeKind::one) {
    out.status = 206;
    out.set("Content-Range", fmt::format("bytes {}-{}/{}", range.first, range.last, size));
    out.file = FileBody{file.fd, range.first, range.last - range.first + 1};
  } else {
    out.file = FileBody{file.fd, 0, size};
  }
  return out;
}

std::string stream_path(const Service& s, const Job& job) { return fmt::format("{}/{}/run.{}/stream.mp4", s.options.data, job_folder(job.id), job.token); }

// Follows the file that a worker lets grow, from its start, until the job ends.
class Tail {
 public:
  Tail(Service& s, Job job) : service_(s), job_(std::move(job)) {
    service_.watcher->follow(job_.id);
    if (auto now = service_.store.get(job_.id)) job_ = std::move(*now);   // what changed before anybody followed
    revision_ = job_.revision;
  }
  ~Tail() { service_.watcher->leave(job_.id); }
  Tail(const Tail&) = delete;
  Tail& operator=(const Tail&) = delete;

  StreamStep next() {
    StreamStep step;
    step.wait_ms = kTickMs;
    if (auto state = service_.watcher->newer(job_.id, revision_)) {
      revision_ = state->revision;
      if (!state->job) {
        step.done = true;   // deleted
        return step;
      }
      job_ = std::move(*state->job);
    }
    if (job_.token && job_.token != token_ && !reopen()) {
      step.done = broken_ || job_.ended_ms;
      return step;
    }
    if (file_) step.bytes = read_more();
    if (!step.bytes.empty()) step.wait_ms = 0;
    else step.done = job_.ended_ms != 0;   // a worker ends the stream before the job
    return step;
  }

 private:
  static constexpr size_t kPiece = 64 << 10;
  static constexpr int kTickMs = 30;

  // The file of the latest claim. A run that goes on from a saved state makes the same bytes; where it did not (another machine), the
  // answer ends, because what was sent cannot be taken back.
  bool reopen() {
    auto next = open_file(stream_path(service_, job_));
    if (!next || static_cast<uint64_t>(next->info.st_size) < offset_) return false;
    broken_ = file_ && !same_start(*file_->fd, *next->fd);
    if (broken_) return false;
    file_ = std::move(next), token_ = job_.token;
    return true;
  }
  bool same_start(int a, int b) const {
    std::string x(kPiece, 0), y(kPiece, 0);
    for (uint64_t at = 0; at < offset_;) {
      const size_t n = std::min<uint64_t>(kPiece, offset_ - at);
      const ssize_t p = pread(a, x.data(), n, static_cast<off_t>(at)), q = pread(b, y.data(), n, static_cast<off_t>(at));
      if (p <= 0 || p != q || std::memcmp(x.data(), y.data(), static_cast<size_t>(p)) != 0) return false;
      at += static_cast<uint64_t>(p);
    }
    return true;
  }
  std::string read_more() {
    std::string bytes(kPiece, 0);
    const ssize_t n = pread(*file_->fd, bytes.data(), bytes.size(), static_cast<off_t>(offset_));
    bytes.resize(n > 0 ? static_cast<size_t>(n) : 0);
    offset_ += bytes.size();
    return bytes;
  }

  Service& service_;
  Job job_;
  int64_t revision_ = 0, token_ = 0;   // token_ of the claim whose file is open; 0: none
  std::optional<Open> file_;
  uint64_t offset_ = 0;
  bool broken_ = false;
};

}  // namespace

// While a video is made: what of it is there, then the rest as it comes. Afterwards the same bytes for as long as they are kept, then the file.
Response Service::stream(const Request& r, const std::string& id) {
  Job job = find_job(*this, r, id);
  if (job.status == JobStatus::completed) {
    const auto open = open_file(stream_path(*this, job));
    if (!open) return content(r, id);
    return serve_file(r, *open, "video/mp4", fmt::format("\"{}.{}\"", job.id, job.token), "private, max-age=3600");
  }
  if (job.ended_ms)
    throw HttpError(404, "video_failed", "id", "the video was not made: " + (job.error_message.empty() ? "it was cancelled" : job.error_message));
  auto tail = std::make_shared<Tail>(*this, std::move(job));
  Response out;
  out.set("Content-Type", "video/mp4").set("Cache-Control", "no-store").set("X-Accel-Buffering", "no");
  out.stream = [tail] { return tail->next(); };
  return out;
}

Response Service::content(const Request& r, const std::string& id) {
  const std::string* given = r.parameter("variant");
  const std::string variant = !given || *given == "0" ? "video" : *given;
  if (variant != "video" && variant != "thumbnail" && variant != "spritesheet")
    refuse("variant", "variant is \"{}\"; wanted video, thumbnail or spritesheet", variant.substr(0, 40));
  const Job job = find_job(*this, r, id);
  if (job.status == JobStatus::failed || job.status == JobStatus::cancelled)
    throw HttpError(404, "video_failed", "id", "the video was not made: " + (job.error_message.empty() ? "it was cancelled" : job.error_message));
  if (job.status != JobStatus::completed) throw HttpError(404, "video_not_ready", "id", "Generation is still in-progress");
  const Json result = Json::parse(job.result, nullptr, false);
  if (!result.is_object() || !result.contains("files") || !result["files"].contains(variant))
    throw HttpError(404, "variant_not_made", "variant", fmt::format("this video has no {}", variant));
  const Json& file = result["files"][variant];
  const auto open = open_file(options.data + "/" + file.value("path", ""));
  if (!open) throw HttpError(404, "content_missing", "id", "the file of this video is no longer there");
  const std::string tag = "\"" + file.value("sha256", job.id + variant) + "\"";
  const std::string type = file.value("type", "application/octet-stream");
  Response out = serve_file(r, *open, type, tag, "private, max-age=31536000, immutable");
  const std::string ending = type.substr(type.find('/') + 1);
  if (out.status < 300) out.set("Content-Disposition", fmt::format("inline; filename=\"{}{}.{}\"", job.id, variant == "video" ? "" : "_" + variant, ending));
  return out;
}

Response Service::preview(const Request& r, const std::string& id) {
  const Job job = find_job(*this, r, id);
  const auto open = open_file(options.data + "/" + job_folder(job.id) + "/preview.png");
  if (!open) throw HttpError(404, "no_preview", "id", "there is no preview of this video (yet, or any more)");
  const std::string tag = fmt::format("\"{}.{}\"", open->info.st_mtim.tv_sec, open->info.st_mtim.tv_nsec);
  return serve_file(r, *open, "image/png", tag, "no-cache");
}

}  // namespace zt::http
