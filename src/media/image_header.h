#pragma once
// What the first bytes of a picture file say, read without decoding it, so that a picture bomb is refused by its size.
#include <cstdint>
#include <optional>
#include <span>

namespace zt {

enum class ImageFormat { png, jpeg, webp, bmp, gif };

struct ImageHeader {
  ImageFormat format = ImageFormat::png;
  int64_t width = 0, height = 0;  // as stored, before orientation; 0 where the header is damaged or cut short
  int orientation = 1;            // EXIF 2.32 tag 0x0112: 1 upright ... 8
  bool complete = true;           // false: the format's end mark is missing
};

const char* image_format_name(ImageFormat format);
// Nothing if the bytes begin like none of the formats. Takes any bytes.
std::optional<ImageHeader> read_image_header(std::span<const uint8_t> file);

}  // namespace zt
