// Any bytes at all: every reader of the media room returns or throws Error, within small limits of size and time.
#include "base/error.h"
#include "media/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  zt::MediaLimits limits;
  limits.max_seconds = 0.5;
  limits.max_side = 512;
  limits.max_pixels = 1 << 16;
  limits.max_bytes = 8 << 20;
  limits.max_work = 3;
  limits.threads = 1;
  const zt::MediaSource source({data, size}, "fuzz");
  const auto attempt = [](auto&& body) {
    try {
      body();
    } catch (const zt::Error&) {}
  };
  attempt([&] { zt::probe(source, limits); });
  attempt([&] { zt::load_picture(source, limits); });
  attempt([&] { zt::load_clip(source, limits); });
  attempt([&] { zt::load_sound(source, limits); });
  attempt([&] { zt::read_metadata(source); });
  return 0;
}
