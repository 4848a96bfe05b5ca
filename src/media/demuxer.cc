#include "media/demuxer.h"

#include <algorithm>

extern "C" {
#include <libavutil/opt.h>
}

#include "base/error.h"
#include "base/threads.h"
#include "media/pixels.h"

namespace zt {
namespace {

// Containers that stand for themselves. Playlists, manifests, concatenations, image sequences and devices are not among them:
// those make FFmpeg open other files or addresses.
constexpr char kFormats[] = "mov,matroska,avi,wav,w64,mp3,flac,ogg,aac,mpegts,mpeg,aiff,au,caf,flv,asf,ivf,yuv4mpegpipe,gif,apng";
// Decoders in wide use; the other hundreds only add ways in.
constexpr char kCodecs[] =
    "h264,hevc,vp8,vp9,av1,libdav1d,libaom-av1,mpeg4,msmpeg4,msmpeg4v2,mpeg1video,mpeg2video,h263,mjpeg,png,apng,gif,webp,bmp,ffv1,ffvhuff,"
    "huffyuv,utvideo,rawvideo,v210,prores,dnxhd,theora,qtrle,wmv1,wmv2,wmv3,vc1,flv,cinepak,aac,aac_latm,mp3float,mp3,mp2float,mp2,ac3,"
    "eac3,"
    "opus,vorbis,libopus,libvorbis,flac,alac,wmav1,wmav2,adpcm_ms,adpcm_ima_wav,adpcm_ima_qt,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_"
    "s32le,"
    "pcm_s32be,pcm_u8,pcm_s8,pcm_f32le,pcm_f32be,pcm_f64le,pcm_f64be,pcm_alaw,pcm_mulaw";
constexpr int kIoBytes = 32 << 10;
constexpr int kMaxStreams = 32;
constexpr int kMaxBadPackets = 1000;  // in a row

// Nothing but the source is ever opened.
int refuse_open(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) { return AVERROR(EACCES); }

AVDictionary* decoder_wishes(const MediaLimits& limits, int threads) {
  AVDictionary* wishes = nullptr;
  av_dict_set_int(&wishes, "max_pixels", limits.max_pixels, 0);
  av_dict_set_int(&wishes, "threads", threads, 0);
  av_dict_set(&wishes, "codec_whitelist", kCodecs, 0);
  return wishes;
}

}  // namespace

void check_size(const std::string& name, int64_t width, int64_t height, const MediaLimits& limits) {
  if (width < 1 || height < 1)
    fail(ErrorKind::request, "{}: found a picture of {}x{} pixels, wanted at least 1x1; make it again", name, width, height);
  if (width > limits.max_side || height > limits.max_side || width * height > limits.max_pixels)
    fail(ErrorKind::request, "{}: found {}x{} pixels, wanted at most {} on a side and {} in all; make it smaller", name, width, height,
         limits.max_side, limits.max_pixels);
}

Demuxer::Demuxer(const MediaSource& source, const MediaLimits& limits) : source_(source), limits_(limits) {
  av::silence();
  deadline_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(limits.max_work * 1000));
  auto* buffer = static_cast<uint8_t*>(av_malloc(kIoBytes));
  io_.reset(avio_alloc_context(buffer, kIoBytes, 0, this, &Demuxer::read, nullptr, &Demuxer::seek));
  AVFormatContext* context = avformat_alloc_context();
  if (!buffer || !io_ || !context) fail(ErrorKind::resource, "{}: no memory to open it", name());
  context->pb = io_.get();
  context->flags |= AVFMT_FLAG_CUSTOM_IO;
  context->io_open = refuse_open;
  context->max_streams = kMaxStreams;
  context->format_whitelist = av_strdup(kFormats);
  context->codec_whitelist = av_strdup(kCodecs);
  context->protocol_whitelist = av_strdup("");
  const int opened = avformat_open_input(&context, "", nullptr, nullptr);  // frees the context if it fails
  if (opened < 0)
    fail(ErrorKind::request, "{}: found no picture, video or sound that can be read ({}); wanted a format such as PNG, JPEG, MP4, MKV, WAV",
         name(), av::words(opened));
  context_.reset(context);
  std::vector<AVDictionary*> wishes;
  for (unsigned i = 0; i < context->nb_streams; i++) wishes.push_back(decoder_wishes(limits, 1));
  const int found = avformat_find_stream_info(context, wishes.data());
  for (AVDictionary*& w : wishes) av_dict_free(&w);
  if (found < 0)
    fail(ErrorKind::request, "{}: the {} file is damaged ({}); make it again", name(), context->iformat->name, av::words(found));
  if (!video() && !this->sound())
    fail(ErrorKind::request, "{}: found a {} file without video and sound, wanted either; choose another", name(), context->iformat->name);
  check_sizes();
}

void Demuxer::check_sizes() const {
  if (const AVStream* v = video()) check_size(name(), v->codecpar->width, v->codecpar->height, limits_);
}

AVStream* Demuxer::video() const {
  const int i = av_find_best_stream(context_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
  if (i < 0 || (context_->streams[i]->disposition & AV_DISPOSITION_ATTACHED_PIC)) return nullptr;
  return context_->streams[i];
}

AVStream* Demuxer::sound() const {
  const int i = av_find_best_stream(context_.get(), AVMEDIA_TYPE_AUDIO, -1, -1, nullptr, 0);
  return i < 0 ? nullptr : context_->streams[i];
}

int Demuxer::read(void* self, uint8_t* out, int size) noexcept {
  auto* d = static_cast<Demuxer*>(self);
  try {
    if (std::chrono::steady_clock::now() > d->deadline_) return AVERROR_EXIT;
    const size_t n = d->source_.read(d->at_, {out, static_cast<size_t>(size)});
    d->at_ += static_cast<int64_t>(n);
    return n ? static_cast<int>(n) : AVERROR_EOF;
  } catch (...) { return AVERROR(EIO); }
}

int64_t Demuxer::seek(void* self, int64_t offset, int whence) noexcept {
  auto* d = static_cast<Demuxer*>(self);
  if (whence & AVSEEK_SIZE) return d->source_.size();
  whence &= ~AVSEEK_FORCE;
  const int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? d->at_ : d->source_.size();
  if (offset > INT64_MAX - base || base + offset < 0) return AVERROR(EINVAL);
  return d->at_ = base + offset;
}

av::Codec Demuxer::open_decoder(AVStream* stream) const {
  const AVCodec* kind = avcodec_find_decoder(stream->codecpar->codec_id);
  const char* codec_name = avcodec_get_name(stream->codecpar->codec_id);
  av::Codec codec(kind ? avcodec_alloc_context3(kind) : nullptr);
  const int threads = std::clamp(limits_.threads > 0 ? limits_.threads : default_thread_count(), 1, 4);
  AVDictionary* wishes = decoder_wishes(limits_, threads);
  int code = codec ? avcodec_parameters_to_context(codec.get(), stream->codecpar) : AVERROR_DECODER_NOT_FOUND;
  if (code >= 0) {
    codec->pkt_timebase = stream->time_base;
    code = avcodec_open2(codec.get(), kind, &wishes);
  }
  av_dict_free(&wishes);
  if (code < 0)
    fail(ErrorKind::request, "{}: found codec {}, which cannot be decoded here ({}); convert it to H.264 and AAC, or WAV", name(),
         codec_name, av::words(code));
  return codec;
}

// The next packet of that stream; negative at the end.
int Demuxer::next_packet(AVPacket* packet, int index) {
  for (;;) {
    av_packet_unref(packet);
    const int code = av_read_frame(context_.get(), packet);
    if (code < 0) return code;
    if (packet->stream_index == index) return 0;
    if (std::chrono::steady_clock::now() > deadline_) return AVERROR_EXIT;
  }
}

void Demuxer::decode(AVStream* stream, const std::function<bool(AVFrame&)>& on_frame) {
  const av::Codec codec = open_decoder(stream);
  for (unsigned i = 0; i < context_->nb_streams; i++)
    context_->streams[i]->discard = context_->streams[i] == stream ? AVDISCARD_DEFAULT : AVDISCARD_ALL;
  const av::Packet packet = av::make_packet();
  const av::Frame frame = av::make_frame();
  int bad = 0;
  bool draining = false, ended = false;
  while (!ended) {
    if (!draining && next_packet(packet.get(), stream->index) < 0) draining = true;
    const int sent = avcodec_send_packet(codec.get(), draining ? nullptr : packet.get());
    if (sent == AVERROR(ENOMEM)) fail(ErrorKind::resource, "{}: no memory to decode it", name());
    bad = sent < 0 && sent != AVERROR_EOF ? bad + 1 : 0;
    if (bad > kMaxBadPackets || std::chrono::steady_clock::now() > deadline_)
      fail(ErrorKind::request, "{}: found damaged {} data without end, wanted a whole file; make it again", name(),
           avcodec_get_name(codec->codec_id));
    for (;;) {
      const int code = avcodec_receive_frame(codec.get(), frame.get());
      if (code == AVERROR_EOF) ended = true;
      if (code < 0) break;  // wants more, has ended, or a damaged frame was left out
      if (!on_frame(*frame)) return;
    }
    if (draining && sent < 0) ended = true;
  }
}

double frame_rate(AVFormatContext& context, AVStream* stream) {
  AVRational r = stream->avg_frame_rate;
  if (r.num <= 0 || r.den <= 0) r = av_guess_frame_rate(&context, stream, nullptr);
  if (r.num <= 0 || r.den <= 0) r = stream->r_frame_rate;
  return r.num > 0 && r.den > 0 ? av_q2d(r) : 0;
}

int stream_orientation(AVStream* stream) {
  size_t size = 0;
  const uint8_t* matrix = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
  return matrix && size >= 9 * sizeof(int32_t) ? matrix_orientation(reinterpret_cast<const int32_t*>(matrix)) : 1;
}

}  // namespace zt
