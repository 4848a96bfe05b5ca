#include "media/png.h"

#include "media/still.h"

namespace zt {

std::vector<uint8_t> encode_png(const Picture& picture) { return encode_still(picture, "png", AV_PIX_FMT_RGB24, 16384, nullptr); }

void write_png(const std::string& path, const Picture& picture) { write_still(path, encode_png(picture)); }

}  // namespace zt
