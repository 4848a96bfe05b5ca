#include "base/environment.h"

#include <cstdlib>

namespace zt {

const char* wanted_isa() {
  const char* text = std::getenv("ZT_ISA");
  return text && *text ? text : nullptr;
}

}  // namespace zt
