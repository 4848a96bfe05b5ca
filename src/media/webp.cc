#include "media/webp.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "media/still.h"

namespace zt {

std::vector<uint8_t> encode_webp(const Picture& picture, int quality) {
  AVDictionary* wishes = nullptr;
  av_dict_set_int(&wishes, "quality", quality, 0);
  return encode_still(picture, "libwebp", AV_PIX_FMT_BGRA, 16383, wishes);
}

void write_webp(const std::string& path, const Picture& picture, int quality) { write_still(path, encode_webp(picture, quality)); }

Picture shrink(const uint8_t* rgb, int width, int height, int max_side) {
  const int factor = std::max(1, (std::max(width, height) + max_side - 1) / max_side);
  Picture out;
  out.width = std::max(1, width / factor), out.height = std::max(1, height / factor);
  const int side_x = std::min(factor, width), side_y = std::min(factor, height);   // of a strip narrower than one square
  const uint32_t area = static_cast<uint32_t>(side_x) * static_cast<uint32_t>(side_y);
  out.rgb.resize(static_cast<size_t>(out.width) * static_cast<size_t>(out.height) * 3);
  uint8_t* to = out.rgb.data();
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x)
      for (int c = 0; c < 3; ++c) {
        uint32_t sum = area / 2;
        for (int dy = 0; dy < side_y; ++dy) {
          const uint8_t* from = rgb + (static_cast<size_t>(y * factor + dy) * static_cast<size_t>(width) + static_cast<size_t>(x * factor)) * 3 + c;
          for (int dx = 0; dx < side_x; ++dx) sum += from[3 * dx];
        }
        *to++ = static_cast<uint8_t>(sum / area);
      }
  return out;
}

ContactSheet::ContactSheet(int64_t frames, int columns, int rows, int max_side) : frames_(frames), columns_(columns), rows_(rows), max_side_(max_side) {}

// Tile i shows the middle of the i-th of equal parts.
bool ContactSheet::wanted(int64_t frame) const {
  const int64_t n = std::min<int64_t>(frames_, columns_ * rows_), i = static_cast<int64_t>(tiles_.size());
  return i < n && frame == (2 * i + 1) * frames_ / (2 * n);
}

void ContactSheet::add(const uint8_t* rgb, int width, int height) {
  const int64_t frame = at_++;
  if (frame == frames_ / 2) middle_ = shrink(rgb, width, height, max_side_);
  if (wanted(frame)) tiles_.push_back(shrink(rgb, width, height, max_side_));
}

Picture ContactSheet::sheet() const {
  if (tiles_.empty()) fail(ErrorKind::internal, "a contact sheet of no frame");
  const int n = static_cast<int>(tiles_.size()), w = tiles_[0].width, h = tiles_[0].height;
  const int columns = std::min(columns_, n), rows = (n + columns - 1) / columns;
  Picture out;
  out.width = columns * w, out.height = rows * h;
  out.rgb.assign(static_cast<size_t>(out.width) * static_cast<size_t>(out.height) * 3, 0);
  for (int i = 0; i < n; ++i)
    for (int y = 0; y < h; ++y)
      std::memcpy(out.rgb.data() + (static_cast<size_t>((i / columns) * h + y) * static_cast<size_t>(out.width) + static_cast<size_t>((i % columns) * w)) * 3,
                  tiles_[static_cast<size_t>(i)].rgb.data() + static_cast<size_t>(y * w) * 3, static_cast<size_t>(w) * 3);
  return out;
}

}  // namespace zt
