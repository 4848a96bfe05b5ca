#include <algorithm>

#include "base/error.h"
#include "media/decode.h"
#include "media/demuxer.h"
#include "media/image_header.h"
#include "media/jpeg.h"
#include "media/pixels.h"

namespace zt {
namespace {

constexpr int64_t kMaxImageFile = int64_t{256} << 20;  // bytes

AVCodecID codec_of(ImageFormat format) {
  switch (format) {
    case ImageFormat::png: return AV_CODEC_ID_PNG;
    case ImageFormat::jpeg: break;  // libjpeg's
    case ImageFormat::webp: return AV_CODEC_ID_WEBP;
    case ImageFormat::bmp: return AV_CODEC_ID_BMP;
    case ImageFormat::gif: return AV_CODEC_ID_GIF;
  }
  return AV_CODEC_ID_NONE;
}

[[noreturn]] void damaged(const std::string& name, ImageFormat format, const std::string& why) {
  fail(ErrorKind::request, "{}: the {} picture is damaged or cut short ({}), wanted a whole one; save it again", name,
       image_format_name(format), why);
}

// The file is one packet: no container parser looks at it.
av::Frame decode_image(const MediaSource& source, const std::vector<uint8_t>& file, const ImageHeader& header, const MediaLimits& limits) {
  av::silence();
  const AVCodec* kind = avcodec_find_decoder(codec_of(header.format));
  av::Codec codec(kind ? avcodec_alloc_context3(kind) : nullptr);
  if (!codec)
    fail(ErrorKind::resource, "{}: found a {} picture, but FFmpeg was built without its decoder", source.name(),
         image_format_name(header.format));
  codec->thread_count = 1;
  codec->max_pixels = limits.max_pixels;
  codec->err_recognition = AV_EF_CRCCHECK | AV_EF_EXPLODE;
  av::check(avcodec_open2(codec.get(), kind, nullptr), "picture decoder");
  const av::Packet packet = av::make_packet();
  if (av_new_packet(packet.get(), static_cast<int>(file.size())) < 0)
    fail(ErrorKind::resource, "{}: no memory to decode it", source.name());
  std::copy(file.begin(), file.end(), packet->data);
  packet->flags |= AV_PKT_FLAG_KEY;
  av::Frame frame = av::make_frame();
  int code = avcodec_send_packet(codec.get(), packet.get());
  if (code >= 0) code = avcodec_send_packet(codec.get(), nullptr);
  if (code >= 0) code = avcodec_receive_frame(codec.get(), frame.get());
  if (code == AVERROR(ENOMEM))
    fail(ErrorKind::resource, "{}: no memory to decode {}x{} pixels", source.name(), header.width, header.height);
  if (code < 0) damaged(source.name(), header.format, av::words(code));
  if (frame->decode_error_flags || (frame->flags & AV_FRAME_FLAG_CORRUPT)) damaged(source.name(), header.format, "its data breaks off");
  return frame;
}

const char* what_it_is(const Demuxer& d) { return d.video() ? "a video" : "a sound"; }

}  // namespace

std::optional<ImageHeader> open_image(const MediaSource& source, const MediaLimits& limits, std::vector<uint8_t>& file) {
  std::vector<uint8_t> start(static_cast<size_t>(std::min<int64_t>(source.size(), 64)));
  start.resize(source.read(0, start));
  if (!read_image_header(start)) return std::nullopt;
  if (source.size() > kMaxImageFile)
    fail(ErrorKind::request, "{}: found a picture file of {} bytes, wanted at most {}; save it smaller", source.name(), source.size(),
         kMaxImageFile);
  file = source.read_all();
  auto header = read_image_header(file);
  if (!header) return std::nullopt;
  check_size(source.name(), header->width, header->height, limits);
  if (!header->complete) damaged(source.name(), header->format, fmt::format("{} bytes without the end mark", file.size()));
  return header;
}

Picture load_picture(const MediaSource& source, const MediaLimits& limits) {
  std::vector<uint8_t> file;
  const auto header = open_image(source, limits, file);
  if (!header) {
    const Demuxer media(source, limits);  // throws if it is nothing at all
    fail(ErrorKind::request, "{}: found {}, wanted a picture; give a PNG, JPEG, WebP, BMP or GIF", source.name(), what_it_is(media));
  }
  if (header->format == ImageFormat::jpeg)
    return orient(decode_jpeg(file, source.name(), header->width, header->height), header->orientation);
  if (header->format == ImageFormat::png) file = pixel_chunks(file);
  const av::Frame frame = decode_image(source, file, *header, limits);
  check_size(source.name(), frame->width, frame->height, limits);
  return orient(ToRgb().convert(*frame, source.name(), false), header->orientation);
}

}  // namespace zt
