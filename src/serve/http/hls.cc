// A video as HLS (RFC 8216bis), under way or finished: a playlist whose segments are runs of the fragments that /stream sends. While the video is
// made, the fragments of the unfinished segment are listed as parts, and a player may ask for a playlist that does not exist yet and waits for it.
#include <chrono>
#include <cmath>
#include <filesystem>

#include "media/fragments.h"
#include "serve/http/files.h"

namespace zt::http {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kSegmentSeconds = 1;             // at least; it then ends where a keyframe begins the next, and keyframes are 2 s apart at most
constexpr int kTargetSeconds = 3;                 // so that none is longer
constexpr double kPartSeconds = static_cast<double>(kFragmentMicroseconds) / 1e6;
constexpr auto kLongestWait = std::chrono::seconds(3 * kTargetSeconds);   // of a request for what is not there yet
constexpr int kTickMs = 30;

struct Segment {
  size_t first = 0, parts = 0;                    // of the index's spans
  double seconds = 0;
};
struct Segments {
  std::vector<Segment> whole;
  Segment open;                                   // parts 0: there is none
};

Segments cut(const FragmentIndex& index, bool ended) {
  Segments out;
  for (size_t i = 0; i < index.spans.size(); ++i) {
    const FragmentSpan& span = index.spans[i];
    if (out.open.parts && span.independent && out.open.seconds >= kSegmentSeconds) out.whole.push_back(out.open), out.open = {i, 0, 0};
    ++out.open.parts, out.open.seconds += span.seconds;
  }
  if (ended && out.open.parts) out.whole.push_back(out.open), out.open = {};
  return out;
}

// A player joins at the start: these are clips, not broadcasts. Parts are for who is at the edge, so only the last segments have them.
std::string playlist(const FragmentIndex& index, const Segments& s, bool ended) {
  std::string out = fmt::format("#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:{}\n#EXT-X-PLAYLIST-TYPE:EVENT\n#EXT-X-MEDIA-SEQUENCE:0\n", kTargetSeconds);
  out += "#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-START:TIME-OFFSET=0\n";
  if (!ended)
    out += fmt::format("#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK={:.1f}\n#EXT-X-PART-INF:PART-TARGET={:.1f}\n", 3 * kPartSeconds, kPartSeconds);
  if (index.init_bytes) out += "#EXT-X-MAP:URI=\"init.mp4\"\n";
  auto parts = [&](const Segment& segment, size_t n) {
    for (size_t i = 0; i < segment.parts; ++i) {
      const FragmentSpan& span = index.spans[segment.first + i];
      out += fmt::format("#EXT-X-PART:DURATION={:.5f},URI=\"segment.m4s?n={}&part={}\"{}\n", span.seconds, n, i, span.independent ? ",INDEPENDENT=YES" : "");
    }
  };
  for (size_t n = 0; n < s.whole.size(); ++n) {
    if (!ended && n + kTargetSeconds >= s.whole.size()) parts(s.whole[n], n);
    out += fmt::format("#EXTINF:{:.5f},\nsegment.m4s?n={}\n", s.whole[n].seconds, n);
  }
  parts(s.open, s.whole.size());
  if (ended) out += "#EXT-X-ENDLIST\n";
  return out;
}

// The fragments of a job as they are.
struct Source {
  std::optional<Open> file;
  FragmentIndex index;
};
Source source_of(const Service& s, const Job& job) {
  Source out;
  out.file = open_file(stream_path(s, job));
  if (out.file) out.index = index_fragments(*out.file->fd);
  return out;
}

// Waits until the playlist holds a segment, or a part of it, that a player asked for: without a wish, until it holds anything at all.
class PlaylistWait {
 public:
  PlaylistWait(Service& s, Job job, int64_t segment, int64_t part)
      : service_(s), followed_(*s.watcher, s.store, std::move(job)), segment_(segment), part_(part) {}

  StreamStep next() {
    followed_.refresh();
    const bool ended = followed_.ended();
    const Source source = source_of(service_, followed_.job());
    const Segments s = cut(source.index, ended);
    StreamStep step;
    step.done = ended || Clock::now() >= last_ || (source.index.init_bytes && there(s));
    if (step.done) step.bytes = playlist(source.index, s, ended);
    else step.wait_ms = kTickMs;
    return step;
  }

 private:
  bool there(const Segments& s) const {
    const auto whole = static_cast<int64_t>(s.whole.size()), open = static_cast<int64_t>(s.open.parts);
    if (segment_ < 0) return whole + open > 0;
    return whole > segment_ || (part_ >= 0 && whole == segment_ && open > part_);
  }

  Service& service_;
  FollowedJob followed_;
  int64_t segment_, part_;
  Clock::time_point last_ = Clock::now() + kLongestWait;
};

Response slice(const Source& source, uint64_t offset, uint64_t bytes, const char* type) {
  Response out;
  out.set("Content-Type", type).set("Cache-Control", "private, max-age=3600");
  out.file = FileBody{source.file->fd, offset, bytes};
  return out;
}

// A job that has fragments or will have them. A finished one whose stream was put away gets it again from its file.
Job playable_job(Service& s, const Request& r, const std::string& id) {
  Job job = find_job(s, r, id);
  if (!job.ended_ms) return job;
  if (job.status != JobStatus::completed) throw not_made(job);
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const std::filesystem::path stream = stream_path(s, job);
  if (open_file(stream.string())) return job;
  const std::filesystem::path video = stream.parent_path() / "video.mp4";
  if (open_file(video.string())) {
    write_fragments(video, stream);
    return job;
  }
  if (!s.results->fetch(fmt::format("{}/run.{}/video.mp4", job_folder(job.id), job.token), video))
    throw HttpError(404, "content_missing", "id", "the file of this video is no longer there");
  write_fragments(video, stream);
  std::error_code ec;
  std::filesystem::remove(video, ec);
  return job;
}

}  // namespace

Response Service::hls_playlist(const Request& r, const std::string& id) {
  Job job = playable_job(*this, r, id);
  const auto [segment, part] = wanted_playlist(r);
  Response out;
  out.set("Content-Type", "application/vnd.apple.mpegurl").set("Cache-Control", "no-cache");
  auto wait = std::make_shared<PlaylistWait>(*this, std::move(job), segment, part);
  StreamStep now = wait->next();
  if (now.done) out.body = std::move(now.bytes);
  else out.stream = [wait] {
    try {
      return wait->next();
    } catch (const Error&) {   // of the disk; an empty playlist is asked for again
      return StreamStep{"", true, 0};
    }
  };
  return out;
}

Response Service::hls_init(const Request& r, const std::string& id) {
  const Source source = source_of(*this, playable_job(*this, r, id));
  if (!source.index.init_bytes) throw HttpError(404, "video_not_ready", "id", "nothing of this video can be played yet");
  return slice(source, 0, source.index.init_bytes, "video/mp4");
}

Response Service::hls_segment(const Request& r, const std::string& id) {
  const Job job = playable_job(*this, r, id);
  const HlsPlace wanted = wanted_media(r);
  const int64_t n = wanted.segment, part = wanted.part;
  const Source source = source_of(*this, job);
  const Segments s = cut(source.index, job.ended_ms != 0);
  const auto at = static_cast<size_t>(n);
  const Segment* segment = at < s.whole.size() ? &s.whole[at] : at == s.whole.size() && part >= 0 ? &s.open : nullptr;
  if (!segment || part >= static_cast<int64_t>(segment->parts)) throw HttpError(404, "no_segment", part < 0 ? "n" : "part", "this video has no such segment (yet)");
  const size_t first = segment->first + (part < 0 ? 0 : static_cast<size_t>(part)), last = part < 0 ? segment->first + segment->parts - 1 : first;
  const FragmentSpan &a = source.index.spans[first], &b = source.index.spans[last];
  return slice(source, a.offset, b.offset + b.bytes - a.offset, "video/iso.segment");
}

}  // namespace zt::http
