#include "media/mp4_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

extern "C" {
#include <libavutil/opt.h>
}

#include "base/error.h"
#include "media/colour.h"
#include "media/ffmpeg.h"
#include "media/part_file.h"

namespace zt {
namespace {

// x264 gives other bytes for other thread counts, so the count is fixed, not the machine's. Four frame threads keep encoding
// behind the decoder on small machines and out of the way on large ones; x264 is deterministic for a given count.
constexpr int kVideoThreads = 4;
// The muxer holds packets of one stream until the other catches up, at most this long: encoded, not raw, so a few megabytes.
constexpr int64_t kInterleaveMicroseconds = 32'000'000;
constexpr int64_t kFragmentMicroseconds = 500'000;

struct CloseOutput {
  void operator()(AVFormatContext* p) const {
    if (p->pb) avio_closep(&p->pb);
    avformat_free_context(p);
  }
};

}  // namespace

struct Mp4Writer::Impl {
  Impl(const std::string& path, const Mp4Options& options);
  ~Impl() { discard(); }

  void open_file();
  void add_video();
  void add_audio();
  void open_codec(AVCodecContext* codec, const AVCodec* kind, AVDictionary* wishes, AVStream* stream, const char* name);
  void write_header();
  void open_stream();
  void write_frame(const uint8_t* rgb);
  void write_pending_audio(bool last);
  void encode(AVCodecContext* codec, AVStream* stream, AVFrame* frame);
  void write_packet(AVStream* stream);
  void finish();
  void discard() noexcept;
  [[noreturn]] void file_error(int code, const char* doing);

  Mp4Options options;
  std::string path, part;
  std::unique_ptr<AVFormatContext, CloseOutput> out, fragments;   // fragments: the stream, or null
  av::Codec video, audio;
  AVStream* video_stream = nullptr;  // owned by out
  AVStream* audio_stream = nullptr;
  av::Frame picture, sound;
  av::Packet packet = av::make_packet();
  std::vector<std::vector<float>> pending;  // a channel, samples that do not fill a frame of the encoder yet
  int64_t frames = 0, samples = 0, encoded_samples = 0;
  bool open = false;
};

namespace {

void check_options(const Mp4Options& o) {
  if (o.width < 16 || o.height < 16 || o.width > 16384 || o.height > 16384 || o.width % 2 || o.height % 2)
    fail(ErrorKind::request, "video size: found {}x{}, wanted even numbers from 16 to 16384; choose another size", o.width, o.height);
  if (o.fps < 1 || o.fps > 240) fail(ErrorKind::request, "frames a second: found {}, wanted 1 to 240", o.fps);
  if (o.channels < 0 || o.channels > 2) fail(ErrorKind::request, "sound channels: found {}, wanted 0, 1 or 2", o.channels);
  constexpr const char* kPresets[] = {"ultrafast", "superfast", "veryfast", "faster",   "fast",
                                      "medium",    "slow",      "slower",   "veryslow", "placebo"};
  if (std::find(std::begin(kPresets), std::end(kPresets), o.preset) == std::end(kPresets))
    fail(ErrorKind::request, "encoder preset: found \"{}\", wanted one of x264's from ultrafast to placebo, such as veryfast", o.preset);
  if (o.crf < 0 || o.crf > 51) fail(ErrorKind::request, "crf: found {}, wanted 0 (lossless) to 51", o.crf);
}

}  // namespace

Mp4Writer::Impl::Impl(const std::string& path, const Mp4Options& options) : options(options), path(path), part(part_name(path)) {
  av::silence();
  check_options(options);
  check_output(path);
  AVFormatContext* context = nullptr;
  av::check(avformat_alloc_output_context2(&context, nullptr, "mp4", nullptr), "MP4 muxer");
  out.reset(context);
  out->flags |= AVFMT_FLAG_BITEXACT;  // no dates, no library versions
  out->max_interleave_delta = kInterleaveMicroseconds;
  for (const auto& [key, value] : options.metadata) av_dict_set(&out->metadata, key.c_str(), value.c_str(), 0);
  add_video();
  if (options.channels) add_audio();
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

void Mp4Writer::Impl::add_video() {
  const AVCodec* kind = avcodec_find_encoder_by_name("libx264");
  if (!kind)
    fail(ErrorKind::resource, "found no H.264 encoder, wanted FFmpeg's libavcodec with libx264; install Debian's libavcodec59 or later");
  video.reset(avcodec_alloc_context3(kind));
  video_stream = avformat_new_stream(out.get(), nullptr);
  if (!video || !video_stream) fail(ErrorKind::resource, "no memory for the video encoder");
  video->width = options.width, video->height = options.height;
  video->pix_fmt = AV_PIX_FMT_YUV420P;
  video->time_base = {1, options.fps};
  video->framerate = {options.fps, 1};
  video->sample_aspect_ratio = {1, 1};
  video->color_primaries = AVCOL_PRI_BT709;
  video->color_trc = AVCOL_TRC_BT709;
  video->colorspace = AVCOL_SPC_BT709;
  video->color_range = AVCOL_RANGE_MPEG;
  video->chroma_sample_location = AVCHROMA_LOC_LEFT;
  video->gop_size = 2 * options.fps;  // a player can jump to every other second
  video->thread_count = kVideoThreads;
  video->thread_type = FF_THREAD_FRAME;
  AVDictionary* wishes = nullptr;
  av_dict_set(&wishes, "preset", options.preset.c_str(), 0);
  av_dict_set_int(&wishes, "crf", options.crf, 0);
  // x264's macroblock tree reads memory that it never wrote: one input gave four different streams in one process (Debian's
  // 0.164, measured under four heap fills on 73 sizes: 37 differed with it, none without).
  av_dict_set_int(&wishes, "mbtree", 0, 0);
  if (options.crf > 0) av_dict_set(&wishes, "profile", "high", 0);  // lossless needs a higher one
  open_codec(video.get(), kind, wishes, video_stream, "video");
  video_stream->avg_frame_rate = video_stream->r_frame_rate = video->framerate;
  picture = av::make_frame();
  picture->width = options.width, picture->height = options.height, picture->format = video->pix_fmt;
  av::check(av_frame_get_buffer(picture.get(), 0), "video frame");
}

void Mp4Writer::Impl::add_audio() {
  const AVCodec* kind = avcodec_find_encoder_by_name("aac");
  if (!kind) fail(ErrorKind::resource, "found no AAC encoder, wanted FFmpeg's libavcodec with aac; install Debian's libavcodec59 or later");
  const int* rate = kind->supported_samplerates;
  while (rate && *rate && *rate != options.sample_rate) rate++;
  if (!rate || !*rate)
    fail(ErrorKind::request, "sample rate: found {} Hz, wanted one that AAC knows, such as 32000 or 48000", options.sample_rate);
  audio.reset(avcodec_alloc_context3(kind));
  audio_stream = avformat_new_stream(out.get(), nullptr);
  if (!audio || !audio_stream) fail(ErrorKind::resource, "no memory for the sound encoder");
  audio->sample_fmt = AV_SAMPLE_FMT_FLTP;
  audio->sample_rate = options.sample_rate;
  av_channel_layout_default(&audio->ch_layout, options.channels);
  audio->bit_rate = options.audio_bit_rate;
  audio->time_base = {1, options.sample_rate};
  audio->flags |= AV_CODEC_FLAG_BITEXACT;  // no library version in the stream
  AVDictionary* wishes = nullptr;
  av_dict_set(&wishes, "aac_coder", options.sound_coder.c_str(), 0);
  open_codec(audio.get(), kind, wishes, audio_stream, "sound");
  sound = av::make_frame();
  sound->format = audio->sample_fmt, sound->sample_rate = options.sample_rate, sound->nb_samples = audio->frame_size;
  av::check(av_channel_layout_copy(&sound->ch_layout, &audio->ch_layout), "sound frame");
  av::check(av_frame_get_buffer(sound.get(), 0), "sound frame");
  pending.resize(static_cast<size_t>(options.channels));
}

// Takes the wishes; one that the encoder does not know is an error, not a silence.
void Mp4Writer::Impl::open_codec(AVCodecContext* codec, const AVCodec* kind, AVDictionary* wishes, AVStream* stream, const char* name) {
  if (out->oformat->flags & AVFMT_GLOBALHEADER) codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  const int code = avcodec_open2(codec, kind, &wishes);
  av_dict_free(&wishes);
  if (code == AVERROR(ENOMEM)) fail(ErrorKind::resource, "no memory for the {} encoder", name);
  if (code < 0)
    fail(ErrorKind::request, "{} encoder: {} with preset \"{}\", crf {}; wanted one of x264's presets, such as veryfast", name,
         av::words(code), options.preset, options.crf);
  stream->time_base = codec->time_base;
  av::check(avcodec_parameters_from_context(stream->codecpar, codec), "stream parameters");
}

void Mp4Writer::Impl::write_header() {
  AVDictionary* wishes = nullptr;
  av_dict_set(&wishes, "movflags", "faststart+use_metadata_tags+write_colr", 0);
  const int code = avformat_write_header(out.get(), &wishes);
  av_dict_free(&wishes);
  if (code < 0) file_error(code, "starting");
}

void Mp4Writer::Impl::open_stream() {
  AVFormatContext* context = nullptr;
  av::check(avformat_alloc_output_context2(&context, nullptr, "mp4", nullptr), "MP4 muxer");
  fragments.reset(context);
  fragments->flags |= AVFMT_FLAG_BITEXACT | AVFMT_FLAG_FLUSH_PACKETS;
  fragments->max_interleave_delta = kInterleaveMicroseconds;
  for (unsigned i = 0; i < out->nb_streams; i++) {
    AVStream* s = avformat_new_stream(fragments.get(), nullptr);
    if (!s) fail(ErrorKind::resource, "no memory for the stream");
    av::check(avcodec_parameters_copy(s->codecpar, out->streams[i]->codecpar), "stream parameters");
    s->codecpar->codec_tag = 0;
    s->time_base = out->streams[i]->time_base;
    s->avg_frame_rate = out->streams[i]->avg_frame_rate;
  }
  const std::string url = "file:" + options.stream_path;
  const int opened = avio_open(&fragments->pb, url.c_str(), AVIO_FLAG_WRITE);
  if (opened < 0) file_error(opened, "opening the stream of");
  AVDictionary* wishes = nullptr;
  // The index waits for the first fragment: only then the encoders' delays are known, which its edit lists hide.
  av_dict_set(&wishes, "movflags", "delay_moov+default_base_moof+write_colr", 0);
  av_dict_set_int(&wishes, "frag_duration", kFragmentMicroseconds, 0);
  const int code = avformat_write_header(fragments.get(), &wishes);
  av_dict_free(&wishes);
  if (code < 0) file_error(code, "starting the stream of");
}

void Mp4Writer::Impl::write_frame(const uint8_t* rgb) {
  av::check(av_frame_make_writable(picture.get()), "video frame");  // the encoder may still hold the one before
  rgb_to_yuv420_bt709(
      rgb, options.width, options.height,
      {picture->data[0], picture->data[1], picture->data[2], picture->linesize[0], picture->linesize[1], picture->linesize[2]});
  picture->pts = frames++;
  encode(video.get(), video_stream, picture.get());
}

// Encodes what fills whole frames of the encoder; with `last`, the rest too, as a short frame.
void Mp4Writer::Impl::write_pending_audio(bool last) {
  const size_t frame_size = static_cast<size_t>(audio->frame_size);
  size_t at = 0;
  while (pending[0].size() - at >= frame_size || (last && pending[0].size() > at)) {
    av::check(av_frame_make_writable(sound.get()), "sound frame");
    const size_t n = std::min(frame_size, pending[0].size() - at);
    for (size_t c = 0; c < pending.size(); c++) std::memcpy(sound->extended_data[c], pending[c].data() + at, n * sizeof(float));
    sound->nb_samples = static_cast<int>(n);
    sound->pts = encoded_samples;
    encoded_samples += static_cast<int64_t>(n), at += n;
    encode(audio.get(), audio_stream, sound.get());
  }
  for (auto& channel : pending) channel.erase(channel.begin(), channel.begin() + static_cast<int64_t>(at));
}

// One frame in (null drains), the packets that are ready out.
void Mp4Writer::Impl::encode(AVCodecContext* codec, AVStream* stream, AVFrame* frame) {
  av::check(avcodec_send_frame(codec, frame), "encoding");
  for (;;) {
    const int code = avcodec_receive_packet(codec, packet.get());
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return;
    av::check(code, "encoding");
    if (stream == video_stream) packet->duration = 1;
    packet->stream_index = stream->index;
    packet->time_base = codec->time_base;
    write_packet(stream);
  }
}

// The packet into the file and, if there is one, the stream.
void Mp4Writer::Impl::write_packet(AVStream* to) {
  if (fragments) {
    av::Packet copy(av_packet_clone(packet.get()));
    if (!copy) fail(ErrorKind::resource, "no memory for the stream");
    av_packet_rescale_ts(copy.get(), packet->time_base, fragments->streams[to->index]->time_base);
    const int written = av_interleaved_write_frame(fragments.get(), copy.get());
    if (written < 0) file_error(written, "writing the stream of");
  }
  av_packet_rescale_ts(packet.get(), packet->time_base, to->time_base);
  const int written = av_interleaved_write_frame(out.get(), packet.get());
  if (written < 0) file_error(written, "writing");
}

void Mp4Writer::Impl::finish() {
  if (frames == 0) fail(ErrorKind::internal, "output {}: no frame was written", path);
  encode(video.get(), video_stream, nullptr);
  if (audio) {
    write_pending_audio(true);
    encode(audio.get(), audio_stream, nullptr);
  }
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
  if (!open) return;
  open = false;
  if (out && out->pb) avio_closep(&out->pb);
  unlink(part.c_str());
}

void Mp4Writer::Impl::file_error(int code, const char* doing) {
  if (code == AVERROR(ENOSPC) || code == AVERROR(EDQUOT) || code == AVERROR(EFBIG))
    fail(ErrorKind::request,
         "output {}: the disk is full or the file too large ({}) while {} it after {} frames; free some space or choose another folder",
         path, av::words(code), doing, frames);
  fail(ErrorKind::request, "output {}: {} it failed after {} frames ({}); choose another folder", path, doing, frames, av::words(code));
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
    for (int64_t i = 0; i < n; i++) impl_->write_frame(rgb + i * bytes);
  });
}

void Mp4Writer::write_audio(const float* const* planes, int64_t samples) {
  or_discard(*impl_, [&] {
    if (!impl_->audio) fail(ErrorKind::internal, "output {}: found sound for a file opened without", impl_->path);
    for (size_t c = 0; c < impl_->pending.size(); c++)
      for (int64_t i = 0; i < samples; i++) {
        if (std::isnan(planes[c][i])) fail(ErrorKind::internal, "sound sample {} of channel {} is not a number", impl_->samples + i, c);
        impl_->pending[c].push_back(std::clamp(planes[c][i], -1.f, 1.f));
      }
    impl_->samples += samples;
    impl_->write_pending_audio(false);
  });
}

void Mp4Writer::finish() {
  or_discard(*impl_, [&] { impl_->finish(); });
}

int64_t Mp4Writer::frames() const { return impl_->frames; }
int64_t Mp4Writer::samples() const { return impl_->samples; }

}  // namespace zt
