// Any bytes at all: the parser either throws Error or every tensor lies inside the bytes and decodes.
#include <cstdlib>

#include "base/error.h"
#include "formats/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const zt::GgufHeader h = zt::parse_gguf(bytes, "fuzz");
    for (const zt::GgufTensor& t : h.tensors) {
      if (t.data < bytes.data() || t.bytes < 0 || t.data + t.bytes > bytes.data() + bytes.size()) std::abort();
      const int64_t n = zt::element_count(t.shape);
      if (n > 65536) continue;
      std::vector<float> values(static_cast<size_t>(n));
      zt::gguf_decode(t.type, t.data, n, values.data());
    }
  } catch (const zt::Error&) {}
  return 0;
}
