#pragma once
// The MP4 muxer that writes to a file, whole or in fragments. Internal to the room.
#include <memory>

#include "media/ffmpeg.h"

namespace zt {

struct CloseOutput {
  void operator()(AVFormatContext* p) const {
    if (p->pb) avio_closep(&p->pb);
    avformat_free_context(p);
  }
};
using Muxer = std::unique_ptr<AVFormatContext, CloseOutput>;

// Nothing is open yet; the same packets give the same bytes. Errors (resource): no memory.
Muxer make_muxer();
// Begins a file of fragments that grows: half a second each, or less where a keyframe begins the next, so that HLS can cut there. FFmpeg's code.
int begin_fragments(AVFormatContext* out);

}  // namespace zt
