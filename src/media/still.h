#pragma once
// One picture through one of FFmpeg's encoders; the room's own, behind png.h and webp.h.
#include <cstdint>
#include <string>
#include <vector>

#include "media/ffmpeg.h"
#include "tensor/media.h"

namespace zt {

// `format` is AV_PIX_FMT_RGB24 or AV_PIX_FMT_BGRA. Takes over `wishes`. Errors: request (a size below 1 or above `max_side`), resource (no
// memory, no such encoder).
std::vector<uint8_t> encode_still(const Picture& picture, const char* encoder, AVPixelFormat format, int max_side, AVDictionary* wishes);
// Written beside its name and renamed: a reader never sees half of it. Errors: request (the place cannot be written, the disk is full).
void write_still(const std::string& path, const std::vector<uint8_t>& bytes);

}  // namespace zt
