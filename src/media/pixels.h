#pragma once
// Decoded frames of any pixel format to RGB, and turning them upright.
#include <string>

#include "media/ffmpeg.h"
#include "tensor/media.h"

namespace zt {

// Converts frames of one stream; keeps FFmpeg's scaler between them.
class ToRgb {
 public:
  // RGB, palette and grey frames give exactly the stored values: 8-bit as they are, deeper ones by their high byte, alpha
  // dropped without blending (what PIL's convert("RGB") does). YUV goes through FFmpeg's scaler with accurate rounding by the
  // frame's own matrix, range and chroma siting; an untagged matrix is BT.709 from 720 rows up, else BT.601; `full_range` is
  // what an untagged range means. Errors (request): a pixel format without pixels.
  Picture convert(const AVFrame& frame, const std::string& name, bool full_range);

 private:
  Picture scale(const AVFrame& frame, const std::string& name, bool full_range);
  av::Scaler scaler_;
  int width_ = 0, height_ = 0, format_ = -1, matrix_ = -1, range_ = -1, siting_ = -1;
};

// Turns a stored picture upright. `orientation` is EXIF's: 1 upright, 2 mirrored, 3 upside down, 4 flipped, 5 transposed,
// 6 to be turned right, 7 transversed, 8 to be turned left.
Picture orient(Picture in, int orientation);
// The EXIF orientation that a container's display matrix (nine 16.16 numbers) means, to the nearest quarter turn.
int matrix_orientation(const int32_t* matrix);

}  // namespace zt
