#include "media/image_header.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace zt {
namespace {

using Bytes = std::span<const uint8_t>;

// Integers at an offset; 0 beyond the end.
struct Reader {
  Bytes bytes;
  bool big = true;
  bool has(size_t at, size_t n) const { return at <= bytes.size() && n <= bytes.size() - at; }
  uint32_t integer(size_t at, size_t n) const {
    if (!has(at, n)) return 0;
    uint32_t v = 0;
    for (size_t i = 0; i < n; i++) v = v << 8 | bytes[at + (big ? i : n - 1 - i)];
    return v;
  }
  bool text(size_t at, std::string_view s) const { return has(at, s.size()) && std::memcmp(bytes.data() + at, s.data(), s.size()) == 0; }
};

// The orientation of an EXIF block: a TIFF whose first directory may hold tag 0x0112 as a short.
int exif_orientation(Bytes block) {
  Reader r{block};
  if (r.text(0, std::string_view("Exif\0\0", 6))) r.bytes = block.subspan(6);
  if (r.text(0, "II")) r.big = false;
  else if (!r.text(0, "MM")) return 1;
  if (r.integer(2, 2) != 42) return 1;
  const size_t directory = r.integer(4, 4), entries = r.integer(directory, 2);
  for (size_t i = 0; i < entries; i++) {
    const size_t at = directory + 2 + 12 * i;
    if (!r.has(at, 12)) break;
    if (r.integer(at, 2) != 0x0112 || r.integer(at + 2, 2) != 3) continue;
    const int value = static_cast<int>(r.integer(at + 8, 2));
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

void read_png(Bytes file, ImageHeader& header) {
  const Reader r{file};
  header.complete = false;
  size_t at = 8;
  while (r.has(at, 12)) {
    const size_t length = r.integer(at, 4);
    if (!r.has(at + 12, length)) return;
    if (r.text(at + 4, "IHDR")) header.width = r.integer(at + 8, 4), header.height = r.integer(at + 12, 4);
    if (r.text(at + 4, "eXIf")) header.orientation = exif_orientation(file.subspan(at + 8, length));
    if (r.text(at + 4, "IEND")) {
      header.complete = true;
      return;
    }
    at += 12 + length;
  }
}

void read_jpeg(Bytes file, ImageHeader& header) {
  const Reader r{file};
  size_t at = 2;
  while (r.has(at, 4)) {
    if (file[at] != 0xFF || file[at + 1] == 0xFF) {
      at++;
      continue;
    }
    const uint8_t marker = file[at + 1];
    if (marker == 0xDA || marker == 0xD9) break;                                   // scan data, end
    if (marker == 0x00 || marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) {  // no length
      at += 2;
      continue;
    }
    const size_t length = r.integer(at + 2, 2);
    if (length < 2 || !r.has(at + 2, length)) break;
    const bool frame = marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame) header.height = r.integer(at + 5, 2), header.width = r.integer(at + 7, 2);
    if (marker == 0xE1 && r.text(at + 4, std::string_view("Exif\0\0", 6)))
      header.orientation = exif_orientation(file.subspan(at + 4, length - 2));
    at += 2 + length;
  }
  constexpr uint8_t kEnd[] = {0xFF, 0xD9};
  at = std::min(at, file.size());
  header.complete = std::search(file.begin() + static_cast<int64_t>(at), file.end(), std::begin(kEnd), std::end(kEnd)) != file.end();
}

void read_webp(Bytes file, ImageHeader& header) {
  const Reader r{file, false};
  header.complete = file.size() >= 8 && file.size() - 8 >= r.integer(4, 4);
  for (size_t at = 12; r.has(at, 8);) {
    const size_t length = r.integer(at + 4, 4), data = at + 8;
    if (r.text(at, "VP8X") && r.has(data, 10)) header.width = r.integer(data + 4, 3) + 1, header.height = r.integer(data + 7, 3) + 1;
    if (r.text(at, "VP8L") && r.has(data, 5) && header.width == 0) {
      const uint32_t bits = r.integer(data + 1, 4);
      header.width = (bits & 0x3FFF) + 1, header.height = ((bits >> 14) & 0x3FFF) + 1;
    }
    if (r.text(at, "VP8 ") && r.has(data, 10) && header.width == 0)
      header.width = r.integer(data + 6, 2) & 0x3FFF, header.height = r.integer(data + 8, 2) & 0x3FFF;
    if (r.text(at, "EXIF")) header.orientation = exif_orientation(file.subspan(data, std::min(length, file.size() - data)));
    at = data + length + (length & 1);
  }
}

void read_bmp(Bytes file, ImageHeader& header) {
  const Reader r{file, false};
  header.complete = r.integer(2, 4) <= file.size();
  if (r.integer(14, 4) == 12) {  // OS/2
    header.width = r.integer(18, 2), header.height = r.integer(20, 2);
    return;
  }
  header.width = static_cast<int32_t>(r.integer(18, 4));
  header.height = static_cast<int32_t>(r.integer(22, 4));
  if (header.height < 0) header.height = -header.height;  // rows top to bottom
}

}  // namespace

const char* image_format_name(ImageFormat format) {
  switch (format) {
    case ImageFormat::png: return "PNG";
    case ImageFormat::jpeg: return "JPEG";
    case ImageFormat::webp: return "WebP";
    case ImageFormat::bmp: return "BMP";
    case ImageFormat::gif: return "GIF";
  }
  return "?";
}

std::vector<uint8_t> pixel_chunks(Bytes png) {
  const Reader r{png};
  constexpr size_t kSignature = 8, kFrame = 12;  // a chunk's length, type and CRC
  std::vector<uint8_t> out(png.begin(), png.begin() + static_cast<int64_t>(std::min(kSignature, png.size())));
  for (size_t at = kSignature; r.has(at, kFrame);) {
    const size_t length = r.integer(at, 4);
    if (!r.has(at + kFrame, length)) break;
    for (const char* kind : {"IHDR", "PLTE", "tRNS", "IDAT", "IEND"})
      if (r.text(at + 4, kind))
        out.insert(out.end(), png.begin() + static_cast<int64_t>(at), png.begin() + static_cast<int64_t>(at + kFrame + length));
    if (r.text(at + 4, "IEND")) break;
    at += kFrame + length;
  }
  return out;
}

std::optional<ImageHeader> read_image_header(Bytes file) {
  const Reader r{file};
  ImageHeader header;
  if (r.text(0, "\x89PNG\r\n\x1a\n")) {
    header.format = ImageFormat::png;
    read_png(file, header);
  } else if (r.text(0, "\xFF\xD8\xFF")) {
    header.format = ImageFormat::jpeg;
    read_jpeg(file, header);
  } else if (r.text(0, "RIFF") && r.text(8, "WEBP")) {
    header.format = ImageFormat::webp;
    read_webp(file, header);
  } else if (r.text(0, "GIF87a") || r.text(0, "GIF89a")) {
    header.format = ImageFormat::gif;
    const Reader little{file, false};
    header.width = little.integer(6, 2), header.height = little.integer(8, 2);
  } else if (r.text(0, "BM") && r.has(0, 26)) {
    header.format = ImageFormat::bmp;
    read_bmp(file, header);
  } else {
    return std::nullopt;
  }
  return header;
}

}  // namespace zt
