#include "media/muxer.h"

#include "media/fragments.h"

namespace zt {

Muxer make_muxer() {
  AVFormatContext* context = nullptr;
  av::check(avformat_alloc_output_context2(&context, nullptr, "mp4", nullptr), "MP4 muxer");
  context->flags |= AVFMT_FLAG_BITEXACT;  // no dates, no library versions
  return Muxer(context);
}

int begin_fragments(AVFormatContext* out) {
  out->flags |= AVFMT_FLAG_FLUSH_PACKETS;
  AVDictionary* wishes = nullptr;
  // The index waits for the first fragment: only then the encoders' delays are known, which its edit lists hide.
  av_dict_set(&wishes, "movflags", "delay_moov+default_base_moof+frag_keyframe+write_colr", 0);
  av_dict_set_int(&wishes, "frag_duration", kFragmentMicroseconds, 0);
  const int code = avformat_write_header(out, &wishes);
  av_dict_free(&wishes);
  return code;
}

}  // namespace zt
