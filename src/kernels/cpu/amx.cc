#include "kernels/ops.h"
namespace zt {
void fill_amx(Ops&) {}
}  // namespace zt
