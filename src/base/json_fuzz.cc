// Any bytes at all: either an Error of kind model with a printable message, or a tree that reads back from its own text.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    zt::Json tree = zt::parse_json(text, "fuzz");
    // The text of the tree escapes what needs it, so it must be valid and mean the same.
    if (zt::parse_json(tree.dump(), "again") != tree) std::abort();
    zt::JsonView view(tree, "fuzz");
    for (auto& [key, value] : tree.items()) {
      try {
        switch (key.size() % 6) {
          case 0: if (int64_t n = view.integer(key, -5, int64_t{1} << 40); n < -5 || n > int64_t{1} << 40) std::abort(); break;
          case 1: if (double d = view.number(key, -1, 1e30); !(d >= -1 && d <= 1e30)) std::abort(); break;
          case 2: view.boolean(key, false); break;
          case 3: view.text(key); break;
          case 4: view.integers(key, INT64_MIN, INT64_MAX); break;
          case 5: view.floats(key, value.size()); break;
        }
      } catch (const zt::Error& e) {
        if (e.kind != zt::ErrorKind::model) std::abort();
      }
    }
  } catch (const zt::Error& e) {
    if (e.kind != zt::ErrorKind::model) std::abort();
  }
  return 0;
}
