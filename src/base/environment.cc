#include "base/environment.h"

#include <cstdlib>

namespace zt {

namespace {
const char* nonempty(const char* text) { return text && *text ? text : nullptr; }
}  // namespace

const char* wanted_isa() { return nonempty(std::getenv("ZT_ISA")); }
const char* wanted_threads() { return nonempty(std::getenv("ZT_THREADS")); }

}  // namespace zt
