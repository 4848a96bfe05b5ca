#include "media/encoders.h"

#include <algorithm>
#include <cmath>
#include <cstring>

extern "C" {
#include <libavutil/opt.h>
}

#include "base/error.h"
#include "media/colour.h"

namespace zt {
namespace {

// x264 gives other bytes for other thread counts, so the count follows from the picture, not from the machine; x264 is deterministic for a
// given count. One for each quarter of a million pixels, at most four: at 192x128 four took 6 % more of the whole run than one.
int video_threads(int width, int height) { return std::clamp(width * height / 245'760, 1, 4); }

constexpr size_t kSoundsWaiting = 64;   // pieces of sound that may wait for the thread that encodes them

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

Encoders::Encoders(const Mp4Options& options, int group, OnPacket on_packet) : options_(options), on_packet_(std::move(on_packet)) {
  av::silence();
  check_options(options_);
  open_video(group);
  if (!options_.channels) return;
  open_audio();
  sound_thread_.emplace(options_.sound_beside, kSoundsWaiting);
}

void Encoders::add_streams(AVFormatContext* out) const {
  for (AVCodecContext* codec : {video_.get(), audio_.get()}) {
    if (!codec) continue;
    AVStream* s = avformat_new_stream(out, nullptr);
    if (!s) fail(ErrorKind::resource, "no memory for the muxer's streams");
    av::check(avcodec_parameters_from_context(s->codecpar, codec), "stream parameters");
    s->time_base = codec->time_base;
    if (codec == video_.get()) s->avg_frame_rate = s->r_frame_rate = codec->framerate;
  }
}

void Encoders::open_video(int group) {
  const AVCodec* kind = avcodec_find_encoder_by_name("libx264");
  if (!kind)
    fail(ErrorKind::resource, "found no H.264 encoder, wanted FFmpeg's libavcodec with libx264; install Debian's libavcodec59 or later");
  video_.reset(avcodec_alloc_context3(kind));
  if (!video_) fail(ErrorKind::resource, "no memory for the video encoder");
  video_->width = options_.width, video_->height = options_.height;
  video_->pix_fmt = AV_PIX_FMT_YUV420P;
  video_->time_base = {1, options_.fps};
  video_->framerate = {options_.fps, 1};
  video_->sample_aspect_ratio = {1, 1};
  video_->color_primaries = AVCOL_PRI_BT709;
  video_->color_trc = AVCOL_TRC_BT709;
  video_->colorspace = AVCOL_SPC_BT709;
  video_->color_range = AVCOL_RANGE_MPEG;
  video_->chroma_sample_location = AVCHROMA_LOC_LEFT;
  video_->gop_size = group ? group : 2 * options_.fps;  // a player can jump to every other second
  if (group) video_->keyint_min = group, video_->max_b_frames = 0;
  video_->thread_count = video_threads(options_.width, options_.height);
  video_->thread_type = group ? FF_THREAD_SLICE : FF_THREAD_FRAME;   // frame threads hold pictures back
  AVDictionary* wishes = nullptr;
  av_dict_set(&wishes, "preset", options_.preset.c_str(), 0);
  av_dict_set_int(&wishes, "crf", options_.crf, 0);
  // x264's macroblock tree reads memory that it never wrote: one input gave four different streams in one process (Debian's
  // 0.164, measured under four heap fills on 73 sizes: 37 differed with it, none without).
  av_dict_set_int(&wishes, "mbtree", 0, 0);
  if (group) av_dict_set(&wishes, "x264-params", "scenecut=0:rc-lookahead=0:sync-lookahead=0", 0);
  if (options_.crf > 0) av_dict_set(&wishes, "profile", "high", 0);  // lossless needs a higher one
  open_codec(video_.get(), kind, wishes, "video");
  picture_ = av::make_frame();
  picture_->width = options_.width, picture_->height = options_.height, picture_->format = video_->pix_fmt;
  av::check(av_frame_get_buffer(picture_.get(), 0), "video frame");
}

void Encoders::open_audio() {
  const AVCodec* kind = avcodec_find_encoder_by_name("aac");
  if (!kind) fail(ErrorKind::resource, "found no AAC encoder, wanted FFmpeg's libavcodec with aac; install Debian's libavcodec59 or later");
  const int* rate = kind->supported_samplerates;
  while (rate && *rate && *rate != options_.sample_rate) rate++;
  if (!rate || !*rate)
    fail(ErrorKind::request, "sample rate: found {} Hz, wanted one that AAC knows, such as 32000 or 48000", options_.sample_rate);
  audio_.reset(avcodec_alloc_context3(kind));
  if (!audio_) fail(ErrorKind::resource, "no memory for the sound encoder");
  audio_->sample_fmt = AV_SAMPLE_FMT_FLTP;
  audio_->sample_rate = options_.sample_rate;
  av_channel_layout_default(&audio_->ch_layout, options_.channels);
  audio_->bit_rate = options_.audio_bit_rate;
  audio_->time_base = {1, options_.sample_rate};
  audio_->flags |= AV_CODEC_FLAG_BITEXACT;  // no library version in the stream
  AVDictionary* wishes = nullptr;
  av_dict_set(&wishes, "aac_coder", options_.sound_coder.c_str(), 0);
  // Of the fast coder's time its choice between left, right and middle, side took three quarters where the two are alike (measured on
  // three clips of h3-nano: .120, .095, .030 s without the choice .035, .031, .027; 57 to 61 dB then 50 to 57; twoloop 34 to 44).
  if (options_.sound_coder == "fast") av_dict_set_int(&wishes, "aac_ms", 0, 0);
  open_codec(audio_.get(), kind, wishes, "sound");
  sound_ = av::make_frame();
  sound_->format = audio_->sample_fmt, sound_->sample_rate = options_.sample_rate, sound_->nb_samples = audio_->frame_size;
  av::check(av_channel_layout_copy(&sound_->ch_layout, &audio_->ch_layout), "sound frame");
  av::check(av_frame_get_buffer(sound_.get(), 0), "sound frame");
  pending_.resize(static_cast<size_t>(options_.channels));
}

// Takes the wishes; one that the encoder does not know is an error, not a silence.
void Encoders::open_codec(AVCodecContext* codec, const AVCodec* kind, AVDictionary* wishes, const char* name) {
  codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  const int code = avcodec_open2(codec, kind, &wishes);
  av_dict_free(&wishes);
  if (code == AVERROR(ENOMEM)) fail(ErrorKind::resource, "no memory for the {} encoder", name);
  if (code < 0)
    fail(ErrorKind::request, "{} encoder: {} with preset \"{}\", crf {}; wanted one of x264's presets, such as veryfast", name,
         av::words(code), options_.preset, options_.crf);
}

void Encoders::write_frame(const uint8_t* rgb) {
  av::check(av_frame_make_writable(picture_.get()), "video frame");  // the encoder may still hold the one before
  rgb_to_yuv420_bt709(
      rgb, options_.width, options_.height,
      {picture_->data[0], picture_->data[1], picture_->data[2], picture_->linesize[0], picture_->linesize[1], picture_->linesize[2]});
  picture_->pts = frames_++;
  encode(video_.get(), picture_.get(), picture_packet_.get());
}

// Encodes what fills whole frames of the encoder; with `last`, the rest too, as a short frame.
void Encoders::write_pending_audio(bool last) {
  const size_t frame_size = static_cast<size_t>(audio_->frame_size);
  size_t at = 0;
  while (pending_[0].size() - at >= frame_size || (last && pending_[0].size() > at)) {
    av::check(av_frame_make_writable(sound_.get()), "sound frame");
    const size_t n = std::min(frame_size, pending_[0].size() - at);
    for (size_t c = 0; c < pending_.size(); c++) std::memcpy(sound_->extended_data[c], pending_[c].data() + at, n * sizeof(float));
    sound_->nb_samples = static_cast<int>(n);
    sound_->pts = encoded_samples_;
    encoded_samples_ += static_cast<int64_t>(n), at += n;
    encode(audio_.get(), sound_.get(), sound_packet_.get());
  }
  for (auto& channel : pending_) channel.erase(channel.begin(), channel.begin() + static_cast<int64_t>(at));
}

// One frame in (null drains), the packets that are ready out.
void Encoders::encode(AVCodecContext* codec, AVFrame* frame, AVPacket* packet) {
  av::check(avcodec_send_frame(codec, frame), "encoding");
  for (;;) {
    const int code = avcodec_receive_packet(codec, packet);
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return;
    av::check(code, "encoding");
    if (codec == video_.get()) packet->duration = 1;
    packet->stream_index = codec == video_.get() ? 0 : 1;
    packet->time_base = codec->time_base;
    std::lock_guard lock(giving_);
    on_packet_(packet, packet->stream_index);
  }
}

void Encoders::write_audio(const float* const* planes, int64_t samples) {
  std::vector<std::vector<float>> copy;
  for (size_t c = 0; c < pending_.size(); c++) {
    const float* bad = std::find_if(planes[c], planes[c] + samples, [](float x) { return std::isnan(x); });
    if (bad != planes[c] + samples) fail(ErrorKind::internal, "sound sample {} of channel {} is not a number", samples_ + (bad - planes[c]), c);
    copy.emplace_back(planes[c], planes[c] + samples);
  }
  samples_ += samples;
  sound_thread_->push([this, copy = std::move(copy)]() mutable { encode_sound(std::move(copy)); });
}

void Encoders::encode_sound(std::vector<std::vector<float>> samples) {
  for (size_t c = 0; c < pending_.size(); c++) {
    for (float& x : samples[c]) x = std::clamp(x, -1.f, 1.f);
    pending_[c].insert(pending_[c].end(), samples[c].begin(), samples[c].end());
  }
  write_pending_audio(false);
}

void Encoders::finish() {
  encode(video_.get(), nullptr, picture_packet_.get());
  if (!audio_) return;
  sound_thread_->finish();
  write_pending_audio(true);
  encode(audio_.get(), nullptr, sound_packet_.get());
}

}  // namespace zt
