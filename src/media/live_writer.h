#pragma once
// H.264 and AAC as fragmented MP4 in memory, for streams without end: an init segment once, then fragments of a fixed number of frames.
// Every fragment begins with a key picture, holds the sound of its own frames, and plays after any other once its clock is moved.
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "media/mp4_writer.h"

namespace zt {

struct Fragment {
  int64_t first_frame = 0, frames = 0;
  std::string bytes;                    // moof, mdat
  std::array<uint64_t, 2> start{};      // of picture and sound, in their timescales
  std::array<size_t, 2> start_at{};     // where bytes say so (64 bits, big endian); 0: no such track in this fragment
};

class LiveWriter {
 public:
  // `options` as for Mp4Writer, but there is no file; `group` frames a fragment. `on_init` is called before the first fragment.
  // Errors: request (absurd sizes, unknown preset), resource (no memory, no encoder).
  LiveWriter(const Mp4Options& options, int group, std::function<void(std::string init)> on_init, std::function<void(Fragment)> on_fragment);
  ~LiveWriter();
  LiveWriter(const LiveWriter&) = delete;
  LiveWriter& operator=(const LiveWriter&) = delete;

  void write_frames(const uint8_t* rgb, int64_t n);                         // as Mp4Writer
  void write_audio(const float* const* planes, int64_t samples);            // a fragment waits for the sound of its frames
  // Ticks a second of picture and sound; after on_init.
  std::array<uint32_t, 2> timescales() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// `fragment` on a clock that began with `first`, so that a reader who joins there starts at zero; picture and sound keep their distance.
std::string rebased(const Fragment& fragment, const Fragment& first, const std::array<uint32_t, 2>& timescales);

}  // namespace zt
