#pragma once
// H.264 and AAC into an MP4, frame by frame as they come: nothing holds the clip. The file has its index in front, sound and
// picture start at the same instant 0 (edit lists hide the encoders' delays), and its colours are tagged BT.709 limited range
// in stream and container. The same frames and samples give the same bytes, whatever the machine has in threads.
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace zt {

struct Mp4Options {
  int width = 0, height = 0;                         // pixels, even
  int fps = 24;                                      // frames a second
  int sample_rate = 32000;                           // Hz; one that AAC knows
  int channels = 2;                                  // 1 or 2; 0 = no sound
  int crf = 17;                                      // x264's constant quality: 0 lossless ... 51 worst; 17 is visually lossless
  std::string preset = "veryfast";                   // x264's speed: ultrafast ... placebo
  std::string sound_coder = "twoloop";               // AAC's search: twoloop, or fast (a quarter to a half of the time, left and right each alone)
  bool sound_beside = false;                         // sound is encoded on a thread of its own, to the same bytes
  int64_t audio_bit_rate = 160000;                   // bits a second
  std::map<std::string, std::string> metadata = {};  // container tags; key "zoetrope" holds the JSON of the run
  // Also writes the same encoded pictures and sounds there as fragments of about half a second, each complete on the disk before the
  // next begins, for readers that follow the growing file. "": no. The file is the caller's to remove.
  std::string stream_path = "";
};

class Mp4Writer {
 public:
  // Writes to ".NAME.part" beside `path` until finish() renames it. Errors: request (odd or absurd sizes, unknown preset, a
  // path that is no place for a file, a full disk), resource (no memory, no encoder).
  Mp4Writer(const std::string& path, const Mp4Options& options);
  ~Mp4Writer();  // without finish(): nothing is left of the file
  Mp4Writer(const Mp4Writer&) = delete;
  Mp4Writer& operator=(const Mp4Writer&) = delete;

  // rgb: [n, height, width, 3] uint8. Errors: request (disk full); the file is given up then.
  void write_frames(const uint8_t* rgb, int64_t n);
  // planes: one pointer a channel to `samples` floats, full scale [-1, 1], clipped beyond. Sound may come before, after or
  // between the frames. Errors: request (disk full), internal (a NaN, or a writer without sound).
  void write_audio(const float* const* planes, int64_t samples);
  // Drains the encoders, puts the index in front, renames. Errors: request (disk full), internal (no frame).
  void finish();

  int64_t frames() const;   // written so far
  int64_t samples() const;  // a channel, written so far

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zt
