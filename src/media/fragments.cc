#include "media/fragments.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <span>

#include "base/error.h"
#include "media/demuxer.h"
#include "media/muxer.h"
#include "media/part_file.h"

namespace zt {

namespace {

constexpr uint64_t kMostHeader = 16 << 20;   // bytes of a moov or moof that are read
constexpr size_t kMostFragments = 100'000;
constexpr uint32_t kNotSync = 0x10000;       // sample_is_non_sync_sample

using Bytes = std::span<const uint8_t>;

uint64_t number(Bytes b, size_t at, size_t n) {
  uint64_t v = 0;
  for (size_t i = 0; i < n; ++i) v = v << 8 | (at + i < b.size() ? b[at + i] : 0);
  return v;
}
uint32_t u32(Bytes b, size_t at) { return static_cast<uint32_t>(number(b, at, 4)); }
bool is(Bytes type, const char* name) { return std::memcmp(type.data(), name, 4) == 0; }

// Calls `f(type, payload)` for each whole box in `b`.
template <class F>
void each_box(Bytes b, F&& f) {
  while (b.size() >= 8) {
    uint64_t size = u32(b, 0), header = 8;
    if (size == 1) size = number(b, 8, 8), header = 16;
    if (size < header || size > b.size()) return;
    f(b.subspan(4, 4), b.subspan(header, size - header));
    b = b.subspan(size);
  }
}

struct Track {
  uint32_t id = 0, timescale = 0;
  uint32_t duration = 0, flags = 0;   // of a sample, unless its fragment says otherwise (trex)
};

// The picture's track.
std::optional<Track> video_track(Bytes moov) {
  std::optional<Track> found;
  each_box(moov, [&](Bytes type, Bytes trak) {
    if (!is(type, "trak")) return;
    Track t;
    bool video = false;
    each_box(trak, [&](Bytes kind, Bytes box) {
      if (is(kind, "tkhd")) t.id = u32(box, box.size() && box[0] == 1 ? 20 : 12);
      if (!is(kind, "mdia")) return;
      each_box(box, [&](Bytes k, Bytes inner) {
        if (is(k, "mdhd")) t.timescale = u32(inner, inner.size() && inner[0] == 1 ? 20 : 12);
        if (is(k, "hdlr") && inner.size() >= 12) video = is(inner.subspan(8, 4), "vide");
      });
    });
    if (video && t.timescale && !found) found = t;
  });
  if (!found) return found;
  each_box(moov, [&](Bytes type, Bytes mvex) {
    if (!is(type, "mvex")) return;
    each_box(mvex, [&](Bytes kind, Bytes trex) {
      if (is(kind, "trex") && u32(trex, 4) == found->id) found->duration = u32(trex, 12), found->flags = u32(trex, 20);
    });
  });
  return found;
}

struct Run {
  uint64_t ticks = 0;
  std::optional<uint32_t> first_flags;   // of the first sample; none: there is no sample
};

void read_run(Bytes trun, uint32_t duration, uint32_t sample_flags, Run& run) {
  const uint32_t flags = u32(trun, 0) & 0xffffff, count = u32(trun, 4);
  size_t at = 8 + (flags & 1 ? 4 : 0);
  std::optional<uint32_t> first;
  if (flags & 4) first = u32(trun, at), at += 4;
  const size_t width = 4 * static_cast<size_t>(((flags >> 8) & 1) + ((flags >> 9) & 1) + ((flags >> 10) & 1) + ((flags >> 11) & 1));
  if (at > trun.size() || (width && count > (trun.size() - at) / width)) return;
  if (count && !run.first_flags)
    run.first_flags = first ? *first : flags & 0x400 ? u32(trun, at + (flags & 0x100 ? 4 : 0) + (flags & 0x200 ? 4 : 0)) : sample_flags;
  if (!(flags & 0x100)) {
    run.ticks += uint64_t{count} * duration;
    return;
  }
  for (uint32_t i = 0; i < count; ++i) run.ticks += u32(trun, at + i * width);
}

Run read_fragment(Bytes moof, const Track& track) {
  Run run;
  each_box(moof, [&](Bytes type, Bytes traf) {
    if (!is(type, "traf")) return;
    bool wanted = false;
    uint32_t duration = track.duration, sample_flags = track.flags;
    each_box(traf, [&](Bytes kind, Bytes box) {
      if (is(kind, "tfhd")) {
        const uint32_t flags = u32(box, 0) & 0xffffff;
        wanted = u32(box, 4) == track.id;
        size_t at = 8 + (flags & 1 ? 8 : 0) + (flags & 2 ? 4 : 0);
        if (flags & 8) duration = u32(box, at), at += 4;
        if (flags & 0x10) at += 4;
        if (flags & 0x20) sample_flags = u32(box, at);
      }
      if (wanted && is(kind, "trun")) read_run(box, duration, sample_flags, run);
    });
  });
  return run;
}

// False: the file ends before.
bool read_at(int fd, uint64_t offset, uint8_t* to, size_t bytes) {
  while (bytes) {
    const ssize_t n = pread(fd, to, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(ErrorKind::resource, "reading a clip in the making: {}; look at the disk of the data folder", std::strerror(errno));
    if (n == 0) return false;
    to += n, offset += static_cast<uint64_t>(n), bytes -= static_cast<size_t>(n);
  }
  return true;
}

[[noreturn]] void cannot_write(const std::string& path, int code) {
  fail(ErrorKind::request, "output {}: cannot be written ({}); free some space or choose another folder", path, av::words(code));
}

void copy_packets(Demuxer& in, AVFormatContext* out, const std::string& to) {
  av::Packet packet = av::make_packet();
  for (;;) {
    const int read = av_read_frame(&in.context(), packet.get());
    if (read == AVERROR_EOF) return;
    if (read < 0) fail(ErrorKind::request, "{}: is damaged ({}); make it again", in.name(), av::words(read));
    const int i = packet->stream_index;
    if (i >= static_cast<int>(out->nb_streams)) continue;
    av_packet_rescale_ts(packet.get(), in.context().streams[i]->time_base, out->streams[i]->time_base);
    packet->pos = -1;
    const int written = av_interleaved_write_frame(out, packet.get());
    if (written < 0) cannot_write(to, written);
  }
}

}  // namespace

FragmentIndex index_fragments(int fd) {
  FragmentIndex index;
  struct stat info {};
  if (fstat(fd, &info) != 0) return index;
  const auto size = static_cast<uint64_t>(info.st_size);
  std::optional<Track> track;
  std::vector<uint8_t> head;
  std::optional<FragmentSpan> open;   // its mdat is to come
  for (uint64_t at = 0; size - at >= 8 && index.spans.size() < kMostFragments;) {
    uint8_t start[16] = {};
    if (!read_at(fd, at, start, 8)) break;
    uint64_t bytes = u32(start, 0);
    const Bytes type(start + 4, 4);
    if (bytes == 1) bytes = read_at(fd, at + 8, start + 8, 8) ? number(start, 8, 8) : 0;
    if (bytes < 8 || bytes > size - at) break;   // not whole yet, or no box
    const bool moov = is(type, "moov"), moof = is(type, "moof");
    if (moov || moof) {
      if (bytes > kMostHeader) break;
      head.resize(bytes);
      if (!read_at(fd, at, head.data(), head.size())) break;
    }
    if (moov) {
      each_box(head, [&](Bytes, Bytes payload) { track = video_track(payload); });
      if (track) index.init_bytes = at + bytes;
    } else if (moof && track) {
      Run run;
      each_box(head, [&](Bytes, Bytes payload) { run = read_fragment(payload, *track); });
      open = FragmentSpan{at, bytes, static_cast<double>(run.ticks) / track->timescale, run.first_flags && !(*run.first_flags & kNotSync)};
    } else if (open && is(type, "mdat")) {
      open->bytes += bytes;
      index.spans.push_back(*open);
      open.reset();
    }
    at += bytes;
  }
  return index;
}

void write_fragments(const std::string& mp4, const std::string& to) {
  Demuxer in(mp4, MediaLimits{});
  check_output(to);
  const std::string part = part_name(to);
  struct Gone {
    const std::string& path;
    ~Gone() { unlink(path.c_str()); }
  } gone{part};
  const Muxer out = make_muxer();
  for (unsigned i = 0; i < in.context().nb_streams; ++i) {
    const AVStream* from = in.context().streams[i];
    AVStream* s = avformat_new_stream(out.get(), nullptr);
    if (!s) fail(ErrorKind::resource, "no memory for the stream");
    av::check(avcodec_parameters_copy(s->codecpar, from->codecpar), "stream parameters");
    s->codecpar->codec_tag = 0;
    s->time_base = from->time_base, s->avg_frame_rate = from->avg_frame_rate;
  }
  const int opened = avio_open(&out->pb, ("file:" + part).c_str(), AVIO_FLAG_WRITE);
  if (opened < 0) cannot_write(to, opened);
  const int begun = begin_fragments(out.get());
  if (begun < 0) cannot_write(to, begun);
  copy_packets(in, out.get(), to);
  const int ended = av_write_trailer(out.get());
  if (ended < 0) cannot_write(to, ended);
  const int closed = avio_closep(&out->pb);
  if (closed < 0) cannot_write(to, closed);
  if (std::rename(part.c_str(), to.c_str()) != 0) cannot_write(to, AVERROR(errno));
}

}  // namespace zt
