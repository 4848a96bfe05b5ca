#include "media/decode.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "media/demuxer.h"
#include "media/pixels.h"

namespace zt {

namespace {

constexpr double kMinFps = 0.05, kMaxFps = 1000;
constexpr int kMaxSampleRate = 768000, kMaxChannels = 64;

double checked_rate(const Demuxer& media, AVStream* stream) {
  const double fps = frame_rate(media.context(), stream);
  if (!(fps >= kMinFps && fps <= kMaxFps))
    fail(ErrorKind::request, "{}: found {} frames a second, wanted {} to {}; convert it to a constant rate such as 24", media.name(), fps,
         kMinFps, kMaxFps);
  return fps;
}

void check_sound(const std::string& name, int sample_rate, int channels) {
  if (sample_rate < 1 || sample_rate > kMaxSampleRate || channels < 1 || channels > kMaxChannels)
    fail(ErrorKind::request,
         "{}: found sound of {} Hz and {} channels, wanted 1 to {} Hz and 1 to {} channels; convert it to 32000 Hz stereo", name,
         sample_rate, channels, kMaxSampleRate, kMaxChannels);
}

double seconds(int64_t ticks, AVRational unit) { return static_cast<double>(ticks) * av_q2d(unit); }

// Puts decoded frames on a constant grid. The grid of a constant rate is the frames themselves, whatever jitter the container's
// clock adds to their times (up to three quarters of a frame).
class Grid {
 public:
  Grid(Clip& clip, const MediaLimits& limits, const std::string& name, int orientation)
      : clip_(clip),
        limits_(limits),
        name_(name),
        orientation_(orientation),
        max_frames_(std::ceil(limits.max_seconds * clip.fps - 1e-6)) {}

  bool full() const { return static_cast<double>(clip_.frames.size()) >= max_frames_; }

  // False when no more frames are wanted. `time`: seconds from the first frame.
  bool add(const AVFrame& frame, std::optional<double> time) {
    constexpr double kJitter = 0.75;
    const double late = time ? *time * clip_.fps - static_cast<double>(clip_.frames.size()) : 0;
    if (late <= -kJitter && !clip_.frames.empty()) return true;  // two frames for one slot: the first stays
    for (double gap = late; gap >= kJitter && !clip_.frames.empty() && !full(); gap -= 1) push(Picture(clip_.frames.back()));
    if (full()) return false;
    Picture picture = orient(to_rgb_.convert(frame, name_, false), orientation_);
    if (limits_.fit) picture = limits_.fit(std::move(picture));
    if (!clip_.frames.empty() && (picture.width != clip_.frames[0].width || picture.height != clip_.frames[0].height))
      fail(ErrorKind::request, "{}: frame {} is {}x{}, the ones before {}x{}; wanted one size, convert it first", name_,
           clip_.frames.size(), picture.width, picture.height, clip_.frames[0].width, clip_.frames[0].height);
    push(std::move(picture));
    return !full();
  }

 private:
  void push(Picture picture) {
    bytes_ += static_cast<int64_t>(picture.rgb.size());
    if (bytes_ > limits_.max_bytes)
      fail(ErrorKind::request,
           "{}: found more than {} bytes of {}x{} frames, wanted at most that for {} seconds; make it smaller or shorter", name_,
           limits_.max_bytes, picture.width, picture.height, limits_.max_seconds);
    clip_.frames.push_back(std::move(picture));
  }

  Clip& clip_;
  const MediaLimits& limits_;
  const std::string& name_;
  const int orientation_;
  const double max_frames_;
  int64_t bytes_ = 0;
  ToRgb to_rgb_;
};

// Frames of `stream` onto clip.frames; the time of the first one, in seconds of the container.
double read_frames(Demuxer& media, AVStream* stream, const MediaLimits& limits, Clip& clip) {
  Grid grid(clip, limits, media.name(), stream_orientation(stream));
  std::optional<int64_t> first;
  media.decode(stream, [&](AVFrame& frame) {
    check_size(media.name(), frame.width, frame.height, limits);
    const int64_t pts = frame.best_effort_timestamp;
    if (pts == AV_NOPTS_VALUE) return grid.add(frame, std::nullopt);
    if (!first) first = pts;
    return grid.add(frame, seconds(pts - *first, stream->time_base));
  });
  if (clip.frames.empty())
    fail(ErrorKind::request, "{}: found a video of no frames, wanted at least one; it is empty or cut short, make it again", media.name());
  const int64_t declared = stream->nb_frames;
  if (!grid.full() && declared > static_cast<int64_t>(clip.frames.size()) + declared / 20 + 1)
    fail(ErrorKind::request, "{}: found {} frames, wanted the {} that its index lists; the file is cut short, copy it again", media.name(),
         clip.frames.size(), declared);
  return first ? seconds(*first, stream->time_base) : 0;
}

// A container that ends long before its header says was cut short. Only asked where the end of the file was reached, and not
// where other streams, such as subtitles, may last longer.
void check_whole(const Demuxer& media, double have) {
  const AVFormatContext& c = media.context();
  for (unsigned i = 0; i < c.nb_streams; i++) {
    const AVMediaType type = c.streams[i]->codecpar->codec_type;
    if (type != AVMEDIA_TYPE_VIDEO && type != AVMEDIA_TYPE_AUDIO) return;
  }
  const double declared = c.duration > 0 ? seconds(c.duration, AV_TIME_BASE_Q) : 0;
  if (have < 0.9 * declared - 0.1)
    fail(ErrorKind::request, "{}: found {:.2f} seconds, wanted the {:.2f} that its header says; the file is cut short, copy it again",
         media.name(), have, declared);
}

// Decoded audio frames to float planes of one layout.
class ToFloat {
 public:
  ToFloat(Sound& sound, const std::string& name) : sound_(sound), name_(name) {}

  void add(const AVFrame& frame) {
    check_sound(name_, frame.sample_rate, frame.ch_layout.nb_channels);
    if (sound_.sample_rate == 0) sound_.sample_rate = frame.sample_rate, sound_.channels.resize(frame.ch_layout.nb_channels == 1 ? 1 : 2);
    if (frame.sample_rate != sound_.sample_rate)
      fail(ErrorKind::request, "{}: the sample rate changes from {} to {} Hz, wanted one; convert it first", name_, sound_.sample_rate,
           frame.sample_rate);
    if (!resampler_ || frame.format != format_ || av_channel_layout_compare(&frame.ch_layout, &layout_.value) != 0) open(frame);
    const size_t before = sound_.channels[0].size();
    uint8_t* planes[2] = {};
    for (size_t c = 0; c < sound_.channels.size(); c++) {
      sound_.channels[c].resize(before + static_cast<size_t>(frame.nb_samples));
      planes[c] = reinterpret_cast<uint8_t*>(sound_.channels[c].data() + before);
    }
    const int made =
        swr_convert(resampler_.get(), planes, frame.nb_samples, const_cast<const uint8_t**>(frame.extended_data), frame.nb_samples);
    if (made != frame.nb_samples) fail(ErrorKind::internal, "{}: the sample converter failed", name_);
  }

 private:
  struct Layout {
    AVChannelLayout value = {};
    ~Layout() { av_channel_layout_uninit(&value); }
  };

  void open(const AVFrame& frame) {
    AVChannelLayout from = {}, to = {};
    if (frame.ch_layout.order == AV_CHANNEL_ORDER_UNSPEC) av_channel_layout_default(&from, frame.ch_layout.nb_channels);
    else av_channel_layout_copy(&from, &frame.ch_layout);
    // One or two channels pass as they are, whatever their container calls them.
    if (from.nb_channels <= 2) av_channel_layout_uninit(&from), av_channel_layout_default(&from, frame.ch_layout.nb_channels);
    av_channel_layout_default(&to, static_cast<int>(sound_.channels.size()));
    SwrContext* made = nullptr;
    int code = swr_alloc_set_opts2(&made, &to, AV_SAMPLE_FMT_FLTP, frame.sample_rate, &from, static_cast<AVSampleFormat>(frame.format),
                                   frame.sample_rate, 0, nullptr);
    av_channel_layout_uninit(&from), av_channel_layout_uninit(&to);
    resampler_.reset(made);
    if (code >= 0) code = swr_init(resampler_.get());
    if (code < 0)
      fail(ErrorKind::request, "{}: found {} channels that cannot be mixed to stereo ({}); convert it to stereo", name_,
           frame.ch_layout.nb_channels, av::words(code));
    format_ = frame.format;
    av_channel_layout_copy(&layout_.value, &frame.ch_layout);
  }

  Sound& sound_;
  const std::string& name_;
  av::Resampler resampler_;
  int format_ = -1;
  Layout layout_;
};

struct TimedSound {
  Sound sound;
  double start = 0;   // seconds of the container
  bool ended = true;  // the stream did, before the limit
};

// A last AAC or Opus frame is longer than the sound it ends: the container says by how much.
void cut_to_duration(AVFrame& frame, AVRational unit) {
  if (frame.pkt_duration <= 0 || frame.sample_rate < 1) return;
  const int64_t samples = av_rescale_q(frame.pkt_duration, unit, {1, frame.sample_rate});
  if (av_cmp_q(unit, {1, frame.sample_rate}) == 0 && samples > 0 && samples < frame.nb_samples)
    frame.nb_samples = static_cast<int>(samples);
}

TimedSound read_sound(Demuxer& media, AVStream* stream, const MediaLimits& limits) {
  check_sound(media.name(), stream->codecpar->sample_rate, stream->codecpar->ch_layout.nb_channels);
  TimedSound out;
  ToFloat converter(out.sound, media.name());
  bool first = true;
  int64_t most = 0;
  media.decode(stream, [&](AVFrame& frame) {
    if (first && frame.best_effort_timestamp != AV_NOPTS_VALUE) out.start = seconds(frame.best_effort_timestamp, stream->time_base);
    first = false;
    cut_to_duration(frame, stream->time_base);
    converter.add(frame);
    most = static_cast<int64_t>(std::ceil(limits.max_seconds * out.sound.sample_rate - 1e-6));
    return out.sound.samples() < most;
  });
  if (out.sound.samples() == 0)
    fail(ErrorKind::request, "{}: found sound of no samples, wanted at least one; it is empty or cut short, make it again", media.name());
  out.ended = out.sound.samples() < most;
  if (out.sound.samples() > most)
    for (auto& channel : out.sound.channels) channel.resize(static_cast<size_t>(most));
  return out;
}

// Moves a soundtrack to the instant of the first frame: silence before a late one, the head of an early one cut.
void align(Sound& sound, double late_seconds, double max_seconds) {
  if (std::fabs(late_seconds) < 1e-3) return;
  const double bounded = std::clamp(late_seconds, -1e6, max_seconds);  // a lying clock must not ask for hours of silence
  const int64_t n = std::llround(bounded * sound.sample_rate), most = std::llround(max_seconds * sound.sample_rate);
  for (auto& channel : sound.channels) {
    if (n > 0) channel.insert(channel.begin(), static_cast<size_t>(n), 0.f);
    else channel.erase(channel.begin(), channel.begin() + std::min(-n, static_cast<int64_t>(channel.size())));
    channel.resize(std::min(channel.size(), static_cast<size_t>(most)));
  }
}

}  // namespace

MediaInfo probe(const MediaSource& source, const MediaLimits& limits) {
  MediaInfo info;
  std::vector<uint8_t> file;
  if (const auto header = open_image(source, limits, file)) {
    info.format = image_format_name(header->format);
    info.width = static_cast<int>(header->width), info.height = static_cast<int>(header->height), info.frames = 1;
    if (header->orientation >= 5) std::swap(info.width, info.height);
    return info;
  }
  Demuxer media(source, limits);
  AVStream* video = media.video();
  AVStream* sound = media.sound();
  info.kind = video ? MediaKind::video : MediaKind::sound;
  info.format = media.context().iformat->name;
  if (media.context().duration > 0) info.seconds = seconds(media.context().duration, AV_TIME_BASE_Q);
  if (video) {
    info.width = video->codecpar->width, info.height = video->codecpar->height;
    if (stream_orientation(video) >= 5) std::swap(info.width, info.height);
    info.fps = checked_rate(media, video);
    info.frames = video->nb_frames > 0 ? video->nb_frames : std::llround(info.seconds * info.fps);
    info.format += std::string(" ") + avcodec_get_name(video->codecpar->codec_id);
  }
  if (sound) {
    info.has_sound = true;
    info.sample_rate = sound->codecpar->sample_rate, info.channels = sound->codecpar->ch_layout.nb_channels;
    check_sound(source.name(), info.sample_rate, info.channels);
    info.format += std::string(" ") + avcodec_get_name(sound->codecpar->codec_id);
  }
  return info;
}

Clip load_clip(const MediaSource& source, const MediaLimits& limits) {
  std::vector<uint8_t> file;
  const auto header = open_image(source, limits, file);
  if (header && header->format != ImageFormat::gif)
    fail(ErrorKind::request, "{}: found a {} picture, wanted a video; give an MP4 or MKV", source.name(),
         image_format_name(header->format));
  Demuxer media(source, limits);
  AVStream* stream = media.video();
  if (!stream) fail(ErrorKind::request, "{}: found sound without video, wanted a video; give an MP4 or MKV", source.name());
  Clip clip;
  clip.fps = checked_rate(media, stream);
  const double start = read_frames(media, stream, limits, clip);
  double end = static_cast<double>(clip.frames.size()) / clip.fps;
  bool ended = end < limits.max_seconds - 1 / clip.fps;
  if (media.sound()) {
    Demuxer again(source, limits);  // its own pass, so that neither stream waits for the other in memory
    TimedSound sound = read_sound(again, again.sound(), limits);
    align(sound.sound, sound.start - start, limits.max_seconds);
    end = std::max(end, static_cast<double>(sound.sound.samples()) / sound.sound.sample_rate);
    ended = ended && sound.ended;
    if (sound.sound.samples() > 0) clip.sound = std::move(sound.sound);
  }
  if (ended) check_whole(media, end);
  return clip;
}

Sound load_sound(const MediaSource& source, const MediaLimits& limits) {
  std::vector<uint8_t> file;
  if (const auto header = open_image(source, limits, file))
    fail(ErrorKind::request, "{}: found a {} picture, wanted sound; give a WAV, MP3, FLAC or a video with sound", source.name(),
         image_format_name(header->format));
  Demuxer media(source, limits);
  if (!media.sound()) fail(ErrorKind::request, "{}: found a video without sound, wanted sound; give a file that has some", source.name());
  TimedSound read = read_sound(media, media.sound(), limits);
  if (read.ended && !media.video()) check_whole(media, static_cast<double>(read.sound.samples()) / read.sound.sample_rate);
  return std::move(read.sound);
}

std::string read_metadata(const MediaSource& source, const std::string& key) {
  std::vector<uint8_t> file;
  if (open_image(source, {}, file)) return "";
  const MediaLimits limits;
  const Demuxer media(source, limits);
  const AVDictionaryEntry* entry = av_dict_get(media.context().metadata, key.c_str(), nullptr, 0);
  return entry ? entry->value : "";
}

}  // namespace zt
