// A live channel as HLS (RFC 8216bis) with low-latency parts. A player asks for the playlist that will hold the next part, or for that part itself,
// and the answer waits until it is there.
#include <chrono>

#include "serve/http/service.h"

namespace zt::http {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLongestWait = std::chrono::seconds(3 * LiveChannel::kTargetSeconds);
constexpr auto kAhead = static_cast<int64_t>(3 / kFragmentSeconds);   // parts after the last one that may be asked for: the draft's Advance Part Limit

// `answer` as soon as the channel has `count` fragments, ends, or the wait has been long enough.
Response when(const std::shared_ptr<LiveChannel>& channel, int64_t count, const std::function<Response()>& answer) {
  auto there = [channel, count, last = Clock::now() + kLongestWait] {
    const LiveChannel::Edge edge = channel->edge();
    return edge.end >= count || edge.ended || Clock::now() >= last;
  };
  if (there()) return answer();
  Response out;
  out.later = [there, answer] { return there() ? std::optional(answer()) : std::nullopt; };
  return out;
}

// Fragments that there must be for the playlist that is asked for. Errors: it lies too far ahead.
int64_t wanted(const LiveChannel::Edge& edge, int64_t segment, int64_t part) {
  if (edge.ended) return 0;
  if (segment < 0) return ((edge.first + kSegmentParts - 1) / kSegmentParts + 1) * kSegmentParts;   // something to play
  const int64_t last = edge.end / kSegmentParts - 1;
  if (segment > last + 2) refuse("_HLS_msn", "_HLS_msn is {}; the last segment is {}, and at most two more may be asked for", segment, last);
  if (part < 0) return (segment + 1) * kSegmentParts;
  const int64_t index = segment * kSegmentParts + std::min(part, kSegmentParts);   // after a segment's last part comes the first of the next
  if (index - (edge.end - 1) > kAhead) refuse("_HLS_part", "_HLS_part {} of segment {} is more than {} parts ahead", part, segment, kAhead);
  return index + 1;
}

// Fragments `first` to before `end` as one body; 404 unless all are there.
Response media(const LiveChannel& channel, int64_t first, int64_t end) {
  Response out;
  for (int64_t i = first; i < end; ++i) {
    const LiveChannel::Piece piece = channel.piece(i);
    if (!piece.fragment) throw HttpError(404, "no_segment", "n", piece.lost ? "that segment is past and no longer kept" : "that segment is not made yet");
    out.body += piece.fragment->bytes;
  }
  out.set("Content-Type", "video/iso.segment").set("Cache-Control", "private, max-age=60");
  return out;
}

}  // namespace

Response Service::live_playlist(const Request& r, const std::string& id) {
  const auto channel = find_live(r, id);
  const auto [segment, part] = wanted_playlist(r);
  channel->touch();
  return when(channel, wanted(channel->edge(), segment, part), [channel] {
    Response out;
    out.set("Content-Type", "application/vnd.apple.mpegurl").set("Cache-Control", "no-store");
    out.body = channel->playlist();
    return out;
  });
}

Response Service::live_init(const Request& r, const std::string& id) {
  const auto channel = find_live(r, id);
  channel->touch();
  Response out;
  out.set("Content-Type", "video/mp4").set("Cache-Control", "no-store");
  out.body = channel->init();
  if (out.body.empty()) throw HttpError(404, "not_ready", "id", "nothing of this channel can be played yet");
  return out;
}

Response Service::live_segment(const Request& r, const std::string& id) {
  const auto channel = find_live(r, id);
  const HlsPlace wanted = wanted_media(r);
  const int64_t n = wanted.segment, part = wanted.part;
  channel->touch();
  const LiveChannel::Edge edge = channel->edge();
  if (n > edge.end / kSegmentParts || part >= kSegmentParts) throw HttpError(404, "no_segment", part < 0 ? "n" : "part", "this channel has no such segment (yet)");
  const int64_t first = n * kSegmentParts;
  if (part >= 0) {
    auto one = [channel, i = first + part] { return media(*channel, i, i + 1); };
    return first + part == edge.end ? when(channel, edge.end + 1, one) : one();   // the part that the playlist promises comes as soon as it is there
  }
  return media(*channel, first, edge.ended ? std::min(first + kSegmentParts, std::max(edge.end, first + 1)) : first + kSegmentParts);   // the last may be short
}

}  // namespace zt::http
