#pragma once
// Decoded pictures and sound as they travel between rooms.
#include <cstdint>
#include <optional>
#include <vector>

namespace zt {

struct Picture {                   // uint8 RGB, rows top to bottom, no padding: [height, width, 3]
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

struct Sound {                     // float32 in [-1, 1], one vector a channel, all of one length
  int sample_rate = 0;             // Hz
  std::vector<std::vector<float>> channels;
  int64_t samples() const { return channels.empty() ? 0 : static_cast<int64_t>(channels[0].size()); }
};

struct Clip {                      // a decoded video with its soundtrack
  double fps = 0;                  // frames a second of `frames`, constant
  std::vector<Picture> frames;
  std::optional<Sound> sound;
};

}  // namespace zt
