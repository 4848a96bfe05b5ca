#include "media/live_writer.h"

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "media/encoders.h"

namespace zt {
namespace {

constexpr size_t kBuffer = 64 << 10;

uint32_t be32(const std::string& s, size_t at) {
  uint32_t v = 0;
  for (size_t i = 0; i < 4; ++i) v = v << 8 | static_cast<uint8_t>(s[at + i]);
  return v;
}

uint64_t be64(const std::string& s, size_t at) { return static_cast<uint64_t>(be32(s, at)) << 32 | be32(s, at + 4); }

struct Box {
  size_t begin, end;   // of the payload
};

// Calls f(type, box) for the boxes in [begin, end): our own muxer's, so sizes are 32 bits and whole.
template <class F>
void each_box(const std::string& s, size_t begin, size_t end, F&& f) {
  while (begin + 8 <= end) {
    const size_t size = be32(s, begin);
    if (size < 8 || begin + size > end) fail(ErrorKind::internal, "the MP4 muxer wrote a box of {} bytes with {} left", size, end - begin);
    f(s.substr(begin + 4, 4), Box{begin + 8, begin + size});
    begin += size;
  }
}

// Start times of the tracks (1 picture, 2 sound). ISO/IEC 14496-12: tfhd holds the track's number, tfdt the time.
void read_starts(Fragment& f) {
  each_box(f.bytes, 0, f.bytes.size(), [&](const std::string& type, Box moof) {
    if (type != "moof") return;
    each_box(f.bytes, moof.begin, moof.end, [&](const std::string& inner, Box traf) {
      if (inner != "traf") return;
      size_t track = 0, at = 0;
      each_box(f.bytes, traf.begin, traf.end, [&](const std::string& leaf, Box b) {
        if (leaf == "tfhd") track = be32(f.bytes, b.begin + 4);
        if (leaf == "tfdt" && f.bytes[b.begin] == 1) at = b.begin + 4;
      });
      if (track < 1 || track > 2 || !at) fail(ErrorKind::internal, "the MP4 muxer wrote a fragment of track {} without its time", track);
      f.start[track - 1] = be64(f.bytes, at), f.start_at[track - 1] = at;
    });
  });
}

}  // namespace

struct LiveWriter::Impl {
  Impl(const Mp4Options& o, int g, std::function<void(std::string)> init, std::function<void(Fragment)> fragment)
      : options(o), group(g), on_init(std::move(init)), on_fragment(std::move(fragment)),
        encoders(o, g, [this](AVPacket* p, int stream) { keep(p, stream); }) {
    AVFormatContext* context = nullptr;
    av::check(avformat_alloc_output_context2(&context, nullptr, "mp4", nullptr), "MP4 muxer");
    out.reset(context);
    out->flags |= AVFMT_FLAG_BITEXACT;
    encoders.add_streams(out.get());
    auto* buffer = static_cast<unsigned char*>(av_malloc(kBuffer));
    out->pb = buffer ? avio_alloc_context(buffer, kBuffer, 1, &bytes, nullptr, take, nullptr) : nullptr;
    if (!out->pb) {
      av_free(buffer);
      fail(ErrorKind::resource, "no memory for the stream");
    }
    out->flags |= AVFMT_FLAG_CUSTOM_IO;
    AVDictionary* wishes = nullptr;
    // The index waits for the first fragment: only then the sound encoder's delay is known, which its edit list hides.
    av_dict_set(&wishes, "movflags", "frag_custom+delay_moov+default_base_moof+write_colr", 0);
    const int code = avformat_write_header(out.get(), &wishes);
    av_dict_free(&wishes);
    av::check(code, "starting a stream");
  }

  static int take(void* to, uint8_t* data, int n) {
    static_cast<std::string*>(to)->append(reinterpret_cast<const char*>(data), static_cast<size_t>(n));
    return n;
  }

  void keep(AVPacket* packet, int stream) {
    av::Packet copy(av_packet_clone(packet));
    if (!copy) fail(ErrorKind::resource, "no memory for the stream");
    (stream == 0 ? pictures : sounds).push_back(std::move(copy));
  }

  int64_t sound_end() const {   // samples that are encoded, from time 0 on
    return sounds.empty() ? heard : sounds.back()->pts + sounds.back()->duration;
  }

  void put(std::deque<av::Packet>& from) {
    AVPacket* p = from.front().get();
    av_packet_rescale_ts(p, p->time_base, out->streams[p->stream_index]->time_base);
    av::check(av_write_frame(out.get(), p), "writing a stream");
    from.pop_front();
  }

  void cut_ready() {
    while (static_cast<int>(pictures.size()) >= group) {
      const int64_t end = (cut + group) * options.sample_rate / options.fps;
      if (options.channels && sound_end() < end) return;
      for (int i = 0; i < group; ++i) put(pictures);
      while (!sounds.empty() && sounds.front()->pts < end) {
        heard = sounds.front()->pts + sounds.front()->duration;
        put(sounds);
      }
      av::check(av_write_frame(out.get(), nullptr), "cutting a stream");
      avio_flush(out->pb);
      give();
      cut += group;
    }
  }

  // What the muxer wrote: at first the index, which may come alone, then fragments.
  void give() {
    size_t head = 0;
    bool fragment = false;
    each_box(bytes, 0, bytes.size(), [&](const std::string& type, Box b) {
      if (type == "ftyp" || type == "moov") head = b.end;
      fragment |= type == "moof";
    });
    if (head) on_init(bytes.substr(0, head)), bytes.erase(0, head);
    if (!fragment) {
      av::check(av_write_frame(out.get(), nullptr), "cutting a stream");
      avio_flush(out->pb);
    }
    Fragment f{cut, group, {}, {}, {}};
    f.bytes.swap(bytes);
    read_starts(f);
    on_fragment(std::move(f));
  }

  struct Close {
    void operator()(AVFormatContext* p) const {
      if (p->pb) {
        av_freep(&p->pb->buffer);
        avio_context_free(&p->pb);
      }
      avformat_free_context(p);
    }
  };

  Mp4Options options;
  int group;
  std::function<void(std::string)> on_init;
  std::function<void(Fragment)> on_fragment;
  std::string bytes;
  std::unique_ptr<AVFormatContext, Close> out;
  std::deque<av::Packet> pictures, sounds;   // encoded, not muxed
  int64_t cut = 0, heard = 0;                // frames and samples that are in fragments
  Encoders encoders;                         // last: its packets go to the others
};

LiveWriter::LiveWriter(const Mp4Options& options, int group, std::function<void(std::string)> on_init, std::function<void(Fragment)> on_fragment)
    : impl_(std::make_unique<Impl>(options, group, std::move(on_init), std::move(on_fragment))) {}

LiveWriter::~LiveWriter() = default;

void LiveWriter::write_frames(const uint8_t* rgb, int64_t n) {
  for (int64_t i = 0; i < n; ++i) impl_->encoders.write_frame(rgb + i * impl_->options.width * impl_->options.height * 3);
  impl_->cut_ready();
}

void LiveWriter::write_audio(const float* const* planes, int64_t samples) {
  impl_->encoders.write_audio(planes, samples);
  impl_->cut_ready();
}

std::array<uint32_t, 2> LiveWriter::timescales() const {
  std::array<uint32_t, 2> out{};
  for (unsigned i = 0; i < impl_->out->nb_streams; ++i) out[i] = static_cast<uint32_t>(impl_->out->streams[i]->time_base.den);
  return out;
}

std::string rebased(const Fragment& fragment, const Fragment& first, const std::array<uint32_t, 2>& scales) {
  std::array<uint64_t, 2> origin = first.start;   // whichever begins first begins at 0
  if (first.start_at[0] && first.start_at[1]) {
    const bool picture_first = first.start[0] * scales[1] <= first.start[1] * scales[0];
    if (picture_first) origin[1] = first.start[0] * scales[1] / scales[0];
    else origin[0] = first.start[1] * scales[0] / scales[1];
  }
  std::string out = fragment.bytes;
  for (size_t t = 0; t < 2; ++t)
    if (fragment.start_at[t]) {
      const uint64_t v = fragment.start[t] - std::min(origin[t], fragment.start[t]);
      for (size_t i = 0; i < 8; ++i) out[fragment.start_at[t] + i] = static_cast<char>(v >> (56 - 8 * i));
    }
  return out;
}

}  // namespace zt
