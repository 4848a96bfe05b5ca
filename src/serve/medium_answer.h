#pragma once
// What `zoetrope decode-medium` writes and media_apart reads: parts, each a PartHeader and as many bytes as it says. Both ends are the same
// program on the same machine, so that numbers are as they lie in memory; the reader trusts none of them.
#include <cstdint>

namespace zt {

constexpr char kMediumName[] = "medium";   // what the decoding process calls it in messages; it is told no name

enum class MediumPart : uint32_t {
  refusal = 1,   // text, at most kMaxRefusal bytes; the last part
  facts,         // MediumFacts, then the format as text; the last part
  picture,       // MediumSize, then RGB; the last part
  frame,         // the same, of a clip; frames come as they are decoded
  clip,          // MediumClip, then the frame (uint32_t) of each instant: its own or again the one before
  sound,         // MediumSound, then float32 samples, channel after channel; the last part
};

constexpr uint64_t kMaxRefusal = 4096, kMaxFormat = 256;   // bytes

struct PartHeader {
  MediumPart part;
  uint32_t reserved = 0;
  uint64_t bytes = 0;
};

struct MediumFacts {   // MediaInfo
  int32_t kind = 0, width = 0, height = 0, has_sound = 0, sample_rate = 0, channels = 0;
  double fps = 0, seconds = 0;
  int64_t frames = 0;
};

struct MediumSize {
  int32_t width = 0, height = 0;
};

struct MediumClip {
  double fps = 0;
  uint32_t instants = 0, has_sound = 0;   // a sound follows
};

struct MediumSound {
  int32_t sample_rate = 0, channels = 0;
  int64_t samples = 0;
};

}  // namespace zt
