#pragma once
#include <string>
#include <string_view>

namespace zt {

// A name of a file's for a message: names come from strangers and go to terminals. Control characters become '?', 120 bytes are kept.
inline std::string shown(std::string_view s) {
  std::string out;
  for (char c : s.substr(0, 120)) out += static_cast<unsigned char>(c) < 32 || c == 127 ? '?' : c;
  return s.size() > 120 ? out + "..." : out;
}

}  // namespace zt
