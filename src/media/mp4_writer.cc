#include "media/mp4_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "media/encoders.h"
#include "media/muxer.h"
#include "media/part_file.h"

namespace zt {
namespace {

// The muxer holds packets of one stream until the other catches up, however long that is: encoded, not raw, so a few megabytes. Their
// order is that of their times then, whichever came first.
constexpr int64_t kInterleaveMicroseconds = 0;

}  // namespace

struct Mp4Writer::Impl {
  Impl(const std::string& path, const Mp4Options& options);
  ~Impl() { discard(); }

  void open_file();
  void write_header();
  void open_stream();
  void write_packet(AVPacket* packet, int stream);
  void finish();
  void discard() noexcept;
  [[noreturn]] void file_error(int code, const char* doing);

  Mp4Options options;
  std::string path, part;
  Muxer out, fragments;   // fragments: the stream, or null
  Encoders encoders;
  bool open = false;
};

Mp4Writer::Impl::Impl(const std::string& path, const Mp4Options& options)
    : options(options), path(path), part(part_name(path)), encoders(options, 0, [this](AVPacket* p, int stream) { write_packet(p, stream); }) {
  check_output(path);
  out = make_muxer();
  out->max_interleave_delta = kInterleaveMicroseconds;
  for (const auto& [key, value] : options.metadata) av_dict_set(&out->metadata, key.c_str(), value.c_str(), 0);
  encoders.add_streams(out.get());
  open_file();
  try {
    write_header();
    if (!options.stream_path.empty()) open_stream();
  } catch (...) {
    discard();
    throw;
  }
}

void Mp4Writer::Impl::open_file() {
  const std::string url = "file:" + part;
  out->url = av_strdup(url.c_str());  // the muxer opens it again to move the index to the front
  const int code = avio_open(&out->pb, url.c_str(), AVIO_FLAG_WRITE);
  if (code == AVERROR(EMFILE) || code == AVERROR(ENFILE) || code == AVERROR(ENOMEM))
    fail(ErrorKind::resource, "output {}: cannot be opened ({}); try again when less runs", path, av::words(code));
  if (code < 0) fail(ErrorKind::request, "output {}: cannot write there ({}); wanted a folder that may be written", path, av::words(code));
  open = true;
}

void Mp4Writer::Impl::write_header() {
  AVDictionary* wishes = nullptr;
  av_dict_set(&wishes, "movflags", "faststart+use_metadata_tags+write_colr", 0);
  const int code = avformat_write_header(out.get(), &wishes);
  av_dict_free(&wishes);
  if (code < 0) file_error(code, "starting");
}

void Mp4Writer::Impl::open_stream() {
  fragments = make_muxer();
  fragments->max_interleave_delta = kInterleaveMicroseconds;
  encoders.add_streams(fragments.get());
  const std::string url = "file:" + options.stream_path;
  const int opened = avio_open(&fragments->pb, url.c_str(), AVIO_FLAG_WRITE);
  if (opened < 0) file_error(opened, "opening the stream of");
  const int code = begin_fragments(fragments.get());
  if (code < 0) file_error(code, "starting the stream of");
}

// The packet into the file and, if there is one, the stream.
void Mp4Writer::Impl::write_packet(AVPacket* packet, int stream) {
  if (fragments) {
    av::Packet copy(av_packet_clone(packet));
    if (!copy) fail(ErrorKind::resource, "no memory for the stream");
    av_packet_rescale_ts(copy.get(), packet->time_base, fragments->streams[stream]->time_base);
    const int written = av_interleaved_write_frame(fragments.get(), copy.get());
    if (written < 0) file_error(written, "writing the stream of");
  }
  av_packet_rescale_ts(packet, packet->time_base, out->streams[stream]->time_base);
  const int written = av_interleaved_write_frame(out.get(), packet);
  if (written < 0) file_error(written, "writing");
}

void Mp4Writer::Impl::finish() {
  if (encoders.frames() == 0) fail(ErrorKind::internal, "output {}: no frame was written", path);
  encoders.finish();
  if (fragments) {   // first: who watches need not wait for the file
    const int ended = av_write_trailer(fragments.get());
    if (ended < 0) file_error(ended, "finishing the stream of");
    const int closed = avio_closep(&fragments->pb);
    if (closed < 0) file_error(closed, "closing the stream of");
  }
  const int code = av_write_trailer(out.get());
  if (code < 0) file_error(code, "finishing");
  avio_flush(out->pb);
  if (out->pb->error < 0) file_error(out->pb->error, "finishing");
  const int closed = avio_closep(&out->pb);
  if (closed < 0) file_error(closed, "closing");
  if (std::rename(part.c_str(), path.c_str()) != 0) file_error(AVERROR(errno), "naming");
  open = false;
}

void Mp4Writer::Impl::discard() noexcept {
  encoders.abandon();
  if (!open) return;
  open = false;
  if (out && out->pb) avio_closep(&out->pb);
  unlink(part.c_str());
}

void Mp4Writer::Impl::file_error(int code, const char* doing) {
  if (code == AVERROR(ENOSPC) || code == AVERROR(EDQUOT) || code == AVERROR(EFBIG))
    fail(ErrorKind::request,
         "output {}: the disk is full or the file too large ({}) while {} it after {} frames; free some space or choose another folder",
         path, av::words(code), doing, encoders.frames());
  fail(ErrorKind::request, "output {}: {} it failed after {} frames ({}); choose another folder", path, doing, encoders.frames(), av::words(code));
}

Mp4Writer::Mp4Writer(const std::string& path, const Mp4Options& options) : impl_(std::make_unique<Impl>(path, options)) {}

Mp4Writer::~Mp4Writer() = default;

namespace {

// After a failed write nothing of the file is worth keeping.
template <class Impl, class Body>
void or_discard(Impl& impl, Body&& body) {
  if (!impl.open) fail(ErrorKind::internal, "output {}: written to after its end", impl.path);
  try {
    body();
  } catch (...) {
    impl.discard();
    throw;
  }
}

}  // namespace

void Mp4Writer::write_frames(const uint8_t* rgb, int64_t n) {
  or_discard(*impl_, [&] {
    const int64_t bytes = int64_t{impl_->options.width} * impl_->options.height * 3;
    for (int64_t i = 0; i < n; i++) impl_->encoders.write_frame(rgb + i * bytes);
  });
}

void Mp4Writer::write_audio(const float* const* planes, int64_t samples) {
  or_discard(*impl_, [&] {
    if (!impl_->options.channels) fail(ErrorKind::internal, "output {}: found sound for a file opened without", impl_->path);
    impl_->encoders.write_audio(planes, samples);
  });
}

void Mp4Writer::finish() {
  or_discard(*impl_, [&] { impl_->finish(); });
}

int64_t Mp4Writer::frames() const { return impl_->encoders.frames(); }
int64_t Mp4Writer::samples() const { return impl_->encoders.samples(); }

}  // namespace zt
