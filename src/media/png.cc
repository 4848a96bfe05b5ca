#include "media/png.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "media/ffmpeg.h"
#include "media/part_file.h"

namespace zt {

std::vector<uint8_t> encode_png(const Picture& picture) {
  av::silence();
  constexpr int kMaxSide = 16384;
  const size_t row = static_cast<size_t>(picture.width) * 3;
  if (picture.width < 1 || picture.height < 1 || picture.width > kMaxSide || picture.height > kMaxSide ||
      picture.rgb.size() != row * static_cast<size_t>(picture.height))
    fail(ErrorKind::request, "PNG: found {}x{} pixels in {} bytes, wanted 1x1 to {}x{} of three bytes each", picture.width, picture.height,
         picture.rgb.size(), kMaxSide, kMaxSide);
  const AVCodec* kind = avcodec_find_encoder(AV_CODEC_ID_PNG);
  const av::Codec codec(kind ? avcodec_alloc_context3(kind) : nullptr);
  if (!codec) fail(ErrorKind::resource, "found no PNG encoder, wanted FFmpeg's libavcodec; install Debian's libavcodec59 or later");
  codec->width = picture.width, codec->height = picture.height;
  codec->pix_fmt = AV_PIX_FMT_RGB24;
  codec->time_base = {1, 1};
  codec->thread_count = 1;
  av::check(avcodec_open2(codec.get(), kind, nullptr), "PNG encoder");
  const av::Frame frame = av::make_frame();
  frame->width = picture.width, frame->height = picture.height, frame->format = codec->pix_fmt;
  av::check(av_frame_get_buffer(frame.get(), 0), "PNG encoder");
  for (int y = 0; y < picture.height; y++)
    std::memcpy(frame->data[0] + int64_t{y} * frame->linesize[0], picture.rgb.data() + static_cast<size_t>(y) * row, row);
  const av::Packet packet = av::make_packet();
  av::check(avcodec_send_frame(codec.get(), frame.get()), "PNG encoder");
  av::check(avcodec_send_frame(codec.get(), nullptr), "PNG encoder");
  av::check(avcodec_receive_packet(codec.get(), packet.get()), "PNG encoder");
  return {packet->data, packet->data + packet->size};
}

void write_png(const std::string& path, const Picture& picture) {
  const std::vector<uint8_t> bytes = encode_png(picture);
  check_output(path);
  const std::string part = part_name(path);
  std::FILE* f = std::fopen(part.c_str(), "wb");
  if (!f) fail(ErrorKind::request, "output {}: cannot write there ({}); wanted a folder that may be written", path, std::strerror(errno));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), f) == bytes.size();
  const bool closed = std::fclose(f) == 0;
  if (!written || !closed || std::rename(part.c_str(), path.c_str()) != 0) {
    const int code = errno;
    unlink(part.c_str());
    fail(ErrorKind::request, "output {}: writing failed ({}); free some space or choose another folder", path, std::strerror(code));
  }
}

}  // namespace zt
