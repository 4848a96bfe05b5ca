#pragma once
// What every operation runs on: worker threads, the table of this machine's kernels, scratch memory, and the owner's wish
// to stop. Passed, never global.
#include <atomic>

#include "base/arena.h"
#include "base/error.h"
#include "base/threads.h"

namespace zt {

struct Ops;   // kernels/ops.h: one table of function pointers per instruction set

struct Exec {
  Threads& threads;
  const Ops& ops;
  Arena& scratch;
  const std::atomic<bool>* cancel = nullptr;
  void check_cancel() const {
    if (cancel && cancel->load(std::memory_order_relaxed)) throw Cancelled();
  }
};

// The best table this machine can run, or the one that ZT_ISA names: ref, avx2, avx512, amx.
// Errors (kind request): a name unknown, or an instruction set that this machine lacks.
const Ops& select_ops();
const Ops& ops_by_name(const char* name);
const char* ops_name(const Ops& ops);
// Names of the tables this machine can run, from the portable one up.
std::vector<const char*> available_ops();

}  // namespace zt
