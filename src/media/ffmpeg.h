#pragma once
// Owners and messages for FFmpeg's C objects. Only the media room includes this.
#include <memory>
#include <string>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libswresample/swresample.h>
#include <libswscale/swscale.h>
}

namespace zt::av {

template <auto free_by_address>
struct Free {
  template <class T>
  void operator()(T* p) const {
    free_by_address(&p);
  }
};
struct FreeSws {
  void operator()(SwsContext* p) const { sws_freeContext(p); }
};

using Codec = std::unique_ptr<AVCodecContext, Free<avcodec_free_context>>;
using Frame = std::unique_ptr<AVFrame, Free<av_frame_free>>;
using Packet = std::unique_ptr<AVPacket, Free<av_packet_free>>;
using Dictionary = std::unique_ptr<AVDictionary, Free<av_dict_free>>;
using Scaler = std::unique_ptr<SwsContext, FreeSws>;
using Resampler = std::unique_ptr<SwrContext, Free<swr_free>>;

Frame make_frame();  // never null; errors (resource): no memory
Packet make_packet();

// What an FFmpeg error code says, in words.
std::string words(int code);
// Throws kind internal "what: words" where code < 0; returns it otherwise.
int check(int code, const char* what);
// FFmpeg prints to stderr on its own; this program speaks through its errors only. Every entry of the room calls it.
void silence();

}  // namespace zt::av
