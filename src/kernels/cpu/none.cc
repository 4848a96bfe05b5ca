// Processors for which only the portable table exists.
#include "kernels/ops.h"

namespace zt {

void fill_avx2(Ops&) {}
void fill_avx512(Ops&) {}
void fill_amx(Ops&) {}
bool isa_available(const char*) { return false; }

}  // namespace zt
