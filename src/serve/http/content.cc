// Bytes of finished videos: variants, ranges, validators, caching; the preview and the growing stream of an unfinished one.
#include <unistd.h>

#include <cstring>

#include "serve/http/files.h"

namespace zt::http {

namespace {

// Follows the file that a worker lets grow, from its start, until the job ends.
class Tail {
 public:
  Tail(Service& s, Job job) : service_(s), followed_(*s.watcher, s.store, std::move(job)) {}

  StreamStep next() {
    StreamStep step;
    step.wait_ms = kTickMs;
    followed_.refresh();
    const int64_t token = followed_.job().token;
    if (followed_.deleted() || (token && token != token_ && !reopen())) {
      step.done = broken_ || followed_.ended();
      return step;
    }
    if (file_) step.bytes = read_more();
    if (!step.bytes.empty()) step.wait_ms = 0;
    else step.done = followed_.ended();   // a worker ends the stream before the job
    return step;
  }

 private:
  static constexpr size_t kPiece = 64 << 10;
  static constexpr int kTickMs = 30;

  // The file of the latest claim. A run that goes on from a saved state makes the same bytes; where it did not (another machine), the
  // answer ends, because what was sent cannot be taken back.
  bool reopen() {
    auto next = open_file(stream_path(service_, followed_.job()));
    if (!next || static_cast<uint64_t>(next->info.st_size) < offset_) return false;
    broken_ = file_ && !same_start(*file_->fd, *next->fd);
    if (broken_) return false;
    file_ = std::move(next), token_ = followed_.job().token;
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
  FollowedJob followed_;
  int64_t token_ = 0;   // token_ of the claim whose file is open; 0: none
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
  if (job.ended_ms) throw not_made(job);
  auto tail = std::make_shared<Tail>(*this, std::move(job));
  Response out;
  out.set("Content-Type", "video/mp4").set("Cache-Control", "no-store").set("X-Accel-Buffering", "no");
  out.stream = [tail] { return tail->next(); };
  return out;
}

Response Service::content(const Request& r, const std::string& id) {
  const std::string* given = r.parameter("variant");
  const std::string variant = !given || *given == "0" ? "video" : *given;
  const bool numbered = variant.size() == 1 && variant[0] > '0' && variant[0] <= '9';   // one of several clips
  if (variant != "video" && variant != "thumbnail" && variant != "spritesheet" && !numbered)
    refuse("variant", "variant is \"{}\"; wanted video, thumbnail, spritesheet or the number of a clip", variant.substr(0, 40));
  const Job job = find_job(*this, r, id);
  if (job.status == JobStatus::failed || job.status == JobStatus::cancelled) throw not_made(job);
  if (job.status != JobStatus::completed) throw HttpError(404, "video_not_ready", "id", "Generation is still in-progress");
  const Json result = Json::parse(job.result, nullptr, false);
  const size_t number = numbered ? static_cast<size_t>(variant[0] - '0') : 0;
  const bool made = result.is_object() && result.contains("files") &&
                    (numbered ? result.contains("videos") && number < result["videos"].size() : result["files"].contains(variant));
  if (!made) throw HttpError(404, "variant_not_made", "variant", fmt::format("this video has no {}{}", numbered ? "clip " : "", variant));
  const Json& file = numbered ? result["videos"][number] : result["files"][variant];
  const std::string path = file.value("path", "");
  std::optional<KeptFile> kept;
  if (const auto here = open_file(options.data + "/" + path)) kept = KeptFile{static_cast<uint64_t>(here->info.st_size), here->fd, {}};
  else kept = results->open(path);   // files of before --results was given are where they were
  if (!kept) throw HttpError(404, "content_missing", "id", "the file of this video is no longer there");
  const std::string tag = "\"" + file.value("sha256", job.id + variant) + "\"";
  const std::string type = file.value("type", "application/octet-stream");
  Response out = serve_kept(r, *kept, type, tag, "private, max-age=31536000, immutable");
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
