#include "serve/http/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "serve/http/errors.h"

namespace zt::http {

namespace {

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

constexpr uint64_t kPiece = uint64_t{1} << 20;

// A piece in memory at a time, whatever the client takes.
void stream_kept(Response& out, const KeptFile& file, uint64_t offset, uint64_t length) {
  out.length = length, out.slow = true;
  out.stream = [read = file.read, offset, left = length]() mutable -> StreamStep {
    try {
      StreamStep step{read(offset, static_cast<size_t>(std::min(left, kPiece))), false, 0};
      offset += step.bytes.size(), left -= step.bytes.size();
      return step;
    } catch (const Error& e) {
      std::fprintf(stderr, "zoetrope: an answer was cut: %s\n", e.what());
      return {"", true, 0};
    }
  };
}

}  // namespace

std::optional<Open> open_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return std::nullopt;
  Open out{std::shared_ptr<const int>(new int(fd), [](const int* p) { close(*p), delete p; }), {}};
  if (fstat(fd, &out.info) != 0 || !S_ISREG(out.info.st_mode)) return std::nullopt;
  return out;
}

Response serve_file(const Request& r, const Open& file, const std::string& type, const std::string& tag, const std::string& cache) {
  return serve_kept(r, {static_cast<uint64_t>(file.info.st_size), file.fd, {}}, type, tag, cache);
}

Response serve_kept(const Request& r, const KeptFile& file, const std::string& type, const std::string& tag, const std::string& cache) {
  const uint64_t size = file.bytes;
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
  }
  const bool part = kind == RangeKind::one;   // a malformed one may have left numbers behind
  const uint64_t first = part ? range.first : 0, length = part ? range.last - range.first + 1 : size;
  if (file.fd) out.file = FileBody{file.fd, first, length};
  else if (length) stream_kept(out, file, first, length);
  return out;
}

std::string stream_path(const Service& s, const Job& job) { return fmt::format("{}/{}/run.{}/stream.mp4", s.options.data, job_folder(job.id), job.token); }

HttpError not_made(const Job& job) {
  return {404, "video_failed", "id", "the video was not made: " + (job.error_message.empty() ? "it was cancelled" : job.error_message)};
}

}  // namespace zt::http
