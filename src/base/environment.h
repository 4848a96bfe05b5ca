#pragma once
// The environment is read here and nowhere else: ZT_ISA, ZT_THREADS. Whatever else can be set is an option or a field of the plan.

namespace zt {

// ZT_ISA: the instruction set whose kernels to use; null if unset or empty.
const char* wanted_isa();
// ZT_THREADS as it was written; null if unset or empty. default_thread_count() in base/threads.h judges it.
const char* wanted_threads();

}  // namespace zt
