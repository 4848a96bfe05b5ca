#pragma once
// Pictures for previews and contact sheets.
#include <cstdint>
#include <string>
#include <vector>

#include "tensor/media.h"

namespace zt {

// An RGB PNG of the picture, without loss. Errors: request (a size below 1 or above 16384), resource (no memory).
std::vector<uint8_t> encode_png(const Picture& picture);
// The same as a file, written beside its name and renamed: a reader never sees half of it. Errors: as above; request (the
// place cannot be written, the disk is full).
void write_png(const std::string& path, const Picture& picture);

}  // namespace zt
