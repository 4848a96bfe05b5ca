#pragma once
// What the first bytes of a picture file say, read without decoding it, so that a picture bomb is refused by its size.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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
// A PNG with the chunks alone that make its pixels (IHDR, PLTE, tRNS, IDAT, IEND): a few kilobytes of text or colour profile can
// unpack to gigabytes, and a decoder would unpack them. `png` is one that read_image_header() found complete.
std::vector<uint8_t> pixel_chunks(std::span<const uint8_t> png);

}  // namespace zt
