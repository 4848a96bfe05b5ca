#pragma once
// Clips held in memory and how far one is from another.
#include <string>
#include <vector>

#include "pipeline/engine.h"

namespace zt {

struct ClipOutput {
  ClipInfo info;
  std::vector<uint8_t> frames;              // [num_frames, height, width, 3]
  std::vector<float> sound;                 // channel after channel
  std::vector<float> latents, audio_latents;   // normalised, before the decoders; empty unless asked for
  Result result;
  double seconds = 0;                       // of generate(), weights loaded
  double cpu_seconds = 0;                   // processor time of all threads, loading included
};

// Runs a request into memory. With `latents` the run is traced for them, and its time is not to be used.
ClipOutput make_output(Engine& engine, const Request& request, bool latents);

struct Distance {
  double latents = 0, audio_latents = 0;    // relative L2
  double frames = 0, psnr = 0;              // relative L2 of frames as 0..255; dB, 99 where equal
  double sound = 0;                         // relative L2
};
Distance distance(const ClipOutput& reference, const ClipOutput& other);
// The one error that budgets are held against: the largest of latents, frames and sound, so that a decoder's own error counts too.
double largest(const Distance& d);
// The sum of its parts: tells plans apart whose largest error is the same one, such as decoders behind the same latents.
double total(const Distance& d);
// Whether a part of `d` is larger than that of `than` by more than a fiftieth.
bool worse(const Distance& d, const Distance& than);

// Relative L2: |a - b| / |a|; 0 for equal ones, 1 where a is zero and b is not. Sizes must agree.
template <class T>
double relative_l2(const std::vector<T>& a, const std::vector<T>& b);

}  // namespace zt
