#include "media/still.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "media/part_file.h"

namespace zt {

namespace {

void fill(AVFrame& frame, const Picture& picture) {
  const size_t row = static_cast<size_t>(picture.width) * 3;
  for (int y = 0; y < picture.height; y++) {
    const uint8_t* from = picture.rgb.data() + static_cast<size_t>(y) * row;
    uint8_t* to = frame.data[0] + int64_t{y} * frame.linesize[0];
    if (frame.format == AV_PIX_FMT_RGB24) {
      std::memcpy(to, from, row);
      continue;
    }
    for (int x = 0; x < picture.width; x++, from += 3, to += 4) to[0] = from[2], to[1] = from[1], to[2] = from[0], to[3] = 255;
  }
}

}  // namespace

std::vector<uint8_t> encode_still(const Picture& picture, const char* encoder, AVPixelFormat format, int max_side, AVDictionary* wishes) {
  av::silence();
  const av::Dictionary options(wishes);
  if (picture.width < 1 || picture.height < 1 || picture.width > max_side || picture.height > max_side ||
      picture.rgb.size() != static_cast<size_t>(picture.width) * 3 * static_cast<size_t>(picture.height))
    fail(ErrorKind::request, "{} picture: found {}x{} pixels in {} bytes, wanted 1x1 to {}x{} of three bytes each", encoder, picture.width, picture.height,
         picture.rgb.size(), max_side, max_side);
  const AVCodec* kind = avcodec_find_encoder_by_name(encoder);
  const av::Codec codec(kind ? avcodec_alloc_context3(kind) : nullptr);
  if (!codec) fail(ErrorKind::resource, "found no {} encoder, wanted FFmpeg's libavcodec; install Debian's libavcodec59 or later", encoder);
  codec->width = picture.width, codec->height = picture.height;
  codec->pix_fmt = format;
  codec->time_base = {1, 1};
  codec->thread_count = 1;
  AVDictionary* taken = nullptr;
  av_dict_copy(&taken, options.get(), 0);
  const int opened = avcodec_open2(codec.get(), kind, &taken);
  av_dict_free(&taken);
  av::check(opened, encoder);
  const av::Frame frame = av::make_frame();
  frame->width = picture.width, frame->height = picture.height, frame->format = format;
  av::check(av_frame_get_buffer(frame.get(), 0), encoder);
  fill(*frame, picture);
  const av::Packet packet = av::make_packet();
  av::check(avcodec_send_frame(codec.get(), frame.get()), encoder);
  av::check(avcodec_send_frame(codec.get(), nullptr), encoder);
  av::check(avcodec_receive_packet(codec.get(), packet.get()), encoder);
  return {packet->data, packet->data + packet->size};
}

void write_still(const std::string& path, const std::vector<uint8_t>& bytes) {
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
