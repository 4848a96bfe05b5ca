#pragma once
// JPEG through libjpeg-turbo, because PIL, which prepares the reference's pictures, decodes with it: FFmpeg's decoder widens
// chroma in another way and differs by about one level in most samples.
#include <cstdint>
#include <span>
#include <string>

#include "tensor/media.h"

namespace zt {

// What PIL.Image.open(...).convert("RGB") gives, before orientation: grey, YCbCr, RGB, CMYK and YCCK (Adobe's inverted kind,
// as PIL assumes). `width` and `height` are those of the header, checked by the caller. Errors (request): damaged, cut short,
// arithmetic or 12-bit coding, a size that differs.
Picture decode_jpeg(std::span<const uint8_t> file, const std::string& name, int64_t width, int64_t height);

}  // namespace zt
