#pragma once
// Takes from this process what decoding a medium does not need. There is no way back.
#include <cstdint>

namespace zt {

// A sanitizer has terabytes of shadow, and opens pipes and files when it looks at things: its builds keep memory, files and system calls.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

struct Confines {
  int64_t memory_bytes = 0;   // of address space
  int64_t cpu_seconds = 0;    // of all threads together
};

// No file can be opened or written, no core dumped, no privilege gained, no process started, no signal sent to another; read and write work on
// what is open. The process dies with the thread that started it. False: the kernel has no system call filter, and resource limits stand alone.
// Errors (internal): a limit is refused.
bool confine(const Confines& confines);

}  // namespace zt
