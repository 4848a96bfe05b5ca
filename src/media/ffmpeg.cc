#include "media/ffmpeg.h"

#include "base/error.h"

namespace zt::av {

Frame make_frame() {
  Frame f(av_frame_alloc());
  if (!f) fail(ErrorKind::resource, "no memory for a video or audio frame");
  return f;
}

Packet make_packet() {
  Packet p(av_packet_alloc());
  if (!p) fail(ErrorKind::resource, "no memory for a packet");
  return p;
}

std::string words(int code) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(code, text, sizeof text);
  return text;
}

int check(int code, const char* what) {
  if (code == AVERROR(ENOMEM)) fail(ErrorKind::resource, "{}: no memory", what);
  if (code < 0) fail(ErrorKind::internal, "{}: {}", what, words(code));
  return code;
}

void silence() {
  static const bool done = [] {
    av_log_set_callback([](void*, int, const char*, va_list) {});
    return true;
  }();
  (void)done;
}

}  // namespace zt::av
