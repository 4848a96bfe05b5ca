#pragma once
// An opened media container and the loop that decodes one of its streams; pictures are opened apart. Inside this room only.
#include <chrono>
#include <functional>
#include <string>

#include "media/decode.h"
#include "media/ffmpeg.h"
#include "media/image_header.h"

namespace zt {

struct CloseInput {
  void operator()(AVFormatContext* p) const { avformat_close_input(&p); }
};
struct FreeIo {
  void operator()(AVIOContext* p) const {
    av_freep(&p->buffer);
    avio_context_free(&p);
  }
};

class Demuxer {
 public:
  // Errors (request): not media of a known kind, damaged, no stream, frames above the limits.
  Demuxer(const MediaSource& source, const MediaLimits& limits);
  Demuxer(const Demuxer&) = delete;
  Demuxer& operator=(const Demuxer&) = delete;

  AVFormatContext& context() const { return *context_; }
  const std::string& name() const { return source_.name(); }
  AVStream* video() const;  // null if there is none; cover pictures of sound files do not count
  AVStream* sound() const;

  // Decodes `stream` from the start until it ends or on_frame says false. Errors (request): a codec unknown, nothing but
  // damage, or no end in sight.
  void decode(AVStream* stream, const std::function<bool(AVFrame&)>& on_frame);

 private:
  static int read(void* self, uint8_t* out, int size) noexcept;
  static int64_t seek(void* self, int64_t offset, int whence) noexcept;
  void check_sizes() const;
  av::Codec open_decoder(AVStream* stream) const;
  int next_packet(AVPacket* packet, int index);

  MediaSource source_;
  const MediaLimits& limits_;
  int64_t at_ = 0;
  std::chrono::steady_clock::time_point deadline_;
  std::unique_ptr<AVIOContext, FreeIo> io_;  // outlives context_
  std::unique_ptr<AVFormatContext, CloseInput> context_;
};

// The header of a picture file and its whole content; nothing if `source` is no picture. Errors (request): too large, damaged.
std::optional<ImageHeader> open_image(const MediaSource& source, const MediaLimits& limits, std::vector<uint8_t>& file);
// Errors (request): a side below 1 or above the limit, too many pixels.
void check_size(const std::string& name, int64_t width, int64_t height, const MediaLimits& limits);
// Frames a second of a video stream; 0 if nothing tells.
double frame_rate(AVFormatContext& context, AVStream* stream);
// EXIF orientation of the stream's display matrix.
int stream_orientation(AVStream* stream);

}  // namespace zt
