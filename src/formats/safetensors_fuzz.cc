// Any bytes at all: the parser either throws Error or every view lies inside the bytes.
#include <cstdlib>
#include <span>

#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = std::as_bytes(std::span(data, size));
  try {
    zt::SafetensorsHeader h = zt::parse_safetensors(bytes, "fuzz");
    int64_t total = 0;
    for (const zt::NamedView& t : h.tensors) {
      auto* p = static_cast<const std::byte*>(t.view.data);
      if (p < bytes.data() || t.view.bytes() < 0 || p + t.view.bytes() > bytes.data() + bytes.size()) std::abort();
      total += t.view.bytes();
      if (t.view.bytes() < 4096) zt::to_float32(t.view);
    }
    if (total > static_cast<int64_t>(size)) std::abort();
  } catch (const zt::Error&) {}
  return 0;
}
