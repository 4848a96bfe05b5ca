#pragma once
// Small pictures for the web: a clip's thumbnail and its contact sheet.
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/media.h"

namespace zt {

// A lossy WebP; `quality` 0 to 100. Errors: request (a size below 1 or above 16383), resource (no memory, no encoder).
std::vector<uint8_t> encode_webp(const Picture& picture, int quality = 85);
// The same as a file, written beside its name and renamed. Errors: as above; request (the place cannot be written, the disk is full).
void write_webp(const std::string& path, const Picture& picture, int quality = 85);

// The frame, RGB [height, width, 3], made smaller by a whole factor so that neither side is above `max_side`: every pixel is the mean of a
// square. What does not fill a square at the right and below is left out.
Picture shrink(const uint8_t* rgb, int width, int height, int max_side);

// A grid of frames taken evenly from a clip, in reading order.
class ContactSheet {
 public:
  // Of a clip of `frames` frames: at most columns * rows of them, none above `max_side` pixels.
  ContactSheet(int64_t frames, int columns, int rows, int max_side);
  void add(const uint8_t* rgb, int width, int height);   // the next frame of the clip; most are passed over
  Picture sheet() const;                                 // errors (internal): no frame was added
  const Picture& middle() const { return middle_; }      // the frame nearest the clip's middle, shrunk alike

 private:
  bool wanted(int64_t frame) const;
  int64_t frames_, at_ = 0;
  int columns_, rows_, max_side_;
  std::vector<Picture> tiles_;
  Picture middle_;
};

}  // namespace zt
