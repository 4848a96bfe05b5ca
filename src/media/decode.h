#pragma once
// Pictures, clips and sounds from files of strangers. Every function here takes any bytes: what is damaged, too large or of the
// wrong kind becomes an Error of kind request that names the file, what was found, what was wanted and what to do.
#include <cstdint>
#include <functional>
#include <string>

#include "media/source.h"
#include "tensor/media.h"

namespace zt {

enum class MediaKind { image, video, sound };

struct MediaInfo {
  MediaKind kind = MediaKind::image;
  int width = 0, height = 0;  // pixels, upright (after EXIF orientation or rotation)
  double fps = 0;             // video: frames a second
  int64_t frames = 0;         // video: as the container says or as duration and rate give; 1 for an image
  double seconds = 0;         // 0 where the file does not say
  bool has_sound = false;
  int sample_rate = 0, channels = 0;
  std::string format;  // container and codecs, for messages and logs
};

struct MediaLimits {
  double max_seconds = 16;               // decoding stops there; what lies beyond is never held
  int64_t max_side = 16384;              // pixels
  int64_t max_pixels = 200'000'000;      // of one picture, checked before it is decoded
  int64_t max_bytes = int64_t{4} << 30;  // of the decoded frames of one clip
  int threads = 0;                       // of the decoder; 0 = default_thread_count(), at most 4
  double max_work = 300;                 // seconds of the clock; a crafted file may not keep a parser busy for ever
  // Applied to each frame as it comes, so that a long or large video is only held at the size it is wanted in.
  std::function<Picture(Picture)> fit = {};
};

// Reads headers, decodes at most what FFmpeg needs to know the streams.
MediaInfo probe(const MediaSource& source, const MediaLimits& limits = {});

// PNG, JPEG, WebP, BMP, the first picture of a GIF or an animated PNG. EXIF orientation is applied, transparency dropped
// without blending (PIL's convert("RGB")), 16-bit samples keep their high byte (PIL clips 16-bit grey to white instead).
Picture load_picture(const MediaSource& source, const MediaLimits& limits = {});

// A video at its own constant rate, turned as its display matrix says, with its soundtrack if it has one. RGB codecs come out
// to the byte. Variable rates are put on the container's average rate by holding and dropping frames.
Clip load_clip(const MediaSource& source, const MediaLimits& limits = {});

// The sound of an audio file or a video at its own rate: 16-bit samples as value / 32768 exactly, mono stays mono, more than
// two channels are mixed down to stereo.
Sound load_sound(const MediaSource& source, const MediaLimits& limits = {});

// The value of the container tag `key`, "" if there is none.
std::string read_metadata(const MediaSource& source, const std::string& key = "zoetrope");

}  // namespace zt
