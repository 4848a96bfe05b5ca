#pragma once
// The environment is read here and in threads.cc only: ZT_ISA, ZT_THREADS, ZT_TRACE.

namespace zt {

// ZT_ISA: the instruction set whose kernels to use; null if unset or empty.
const char* wanted_isa();

}  // namespace zt
