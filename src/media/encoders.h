#pragma once
// H.264 and AAC encoders fed frame by frame; what they give goes to one function. Internal to the room.
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "base/behind.h"
#include "media/ffmpeg.h"
#include "media/mp4_writer.h"

namespace zt {

class Encoders {
 public:
  // `on_packet` gets each packet with its time base set; stream 0 is the picture, 1 the sound. The packet is the encoders' own. One call
  // at a time; with options.sound_beside those for sound come from another thread.
  using OnPacket = std::function<void(AVPacket* packet, int stream)>;
  // `group`: frames between two key pictures, every one of them a start for a reader, without pictures that depend on later ones; 0: two
  // seconds, and the encoder's choice. Errors: request (absurd sizes, unknown preset), resource (no memory, no encoder).
  Encoders(const Mp4Options& options, int group, OnPacket on_packet);

  // Adds the streams to a muxer. Errors (resource): no memory.
  void add_streams(AVFormatContext* out) const;
  void write_frame(const uint8_t* rgb);
  // Errors (internal): a NaN.
  void write_audio(const float* const* planes, int64_t samples);
  void finish();                       // drains both
  // No call of on_packet follows. For one who gives up without finish().
  void abandon() noexcept { sound_thread_.reset(); }
  int64_t frames() const { return frames_; }
  int64_t samples() const { return samples_; }

 private:
  void open_video(int group);
  void open_audio();
  void open_codec(AVCodecContext* codec, const AVCodec* kind, AVDictionary* wishes, const char* name);
  void encode_sound(std::vector<std::vector<float>> samples);
  void write_pending_audio(bool last);
  void encode(AVCodecContext* codec, AVFrame* frame, AVPacket* packet);

  Mp4Options options_;
  OnPacket on_packet_;
  av::Codec video_, audio_;
  av::Frame picture_, sound_;
  av::Packet picture_packet_ = av::make_packet(), sound_packet_ = av::make_packet();
  std::vector<std::vector<float>> pending_;   // a channel, samples that do not fill a frame of the encoder yet
  std::atomic<int64_t> frames_ = 0;           // asked for on either thread
  int64_t samples_ = 0, encoded_samples_ = 0;
  std::mutex giving_;                     // held in on_packet_
  std::optional<Behind> sound_thread_;    // last: it goes first
};

}  // namespace zt
