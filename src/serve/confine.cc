#include "serve/confine.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace zt {

namespace {

void limit(int resource, rlim_t value, const char* what, rlim_t more = 0) {
  rlimit r{};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &r);
  r.rlim_max = std::min(r.rlim_max, value + more);
  r.rlim_cur = std::min(r.rlim_max, value);
  if (setrlimit(static_cast<__rlimit_resource_t>(resource), &r) != 0) fail(ErrorKind::internal, "the limit of {} is refused: {}", what, std::strerror(errno));
}

#if defined(__x86_64__) || defined(__aarch64__)

#ifdef __x86_64__
constexpr uint32_t kMachine = AUDIT_ARCH_X86_64;
#else
constexpr uint32_t kMachine = AUDIT_ARCH_AARCH64;
#endif

// What threads, memory and clocks take; everything else answers EPERM.
constexpr uint32_t kAllowed[] = {
    __NR_read, __NR_pread64, __NR_readv, __NR_write, __NR_writev, __NR_lseek, __NR_close, __NR_fstat, __NR_newfstatat, __NR_munmap, __NR_mremap, __NR_madvise,
    __NR_brk, __NR_futex, __NR_set_robust_list, __NR_rseq, __NR_sched_getaffinity, __NR_sched_yield, __NR_gettid, __NR_getpid, __NR_clock_gettime,
    __NR_clock_getres, __NR_clock_nanosleep, __NR_nanosleep, __NR_gettimeofday, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_rt_sigreturn, __NR_sigaltstack,
    __NR_exit, __NR_exit_group, __NR_getrandom, __NR_restart_syscall, __NR_getrusage, __NR_sysinfo, __NR_uname, __NR_membarrier};

class Filter {
 public:
  Filter() {
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMachine, 1, 0));
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    for (const uint32_t nr : kAllowed) answer(nr, SECCOMP_RET_ALLOW);
    answer(__NR_clone3, SECCOMP_RET_ERRNO | ENOSYS);   // its flags cannot be seen; the C library then takes clone
    allow_if(__NR_clone, 0, BPF_JSET, CLONE_THREAD, true);
    allow_if(__NR_mmap, 2, BPF_JSET, PROT_EXEC, false);
    allow_if(__NR_mprotect, 2, BPF_JSET, PROT_EXEC, false);
    allow_if(__NR_tgkill, 0, BPF_JEQ, static_cast<uint32_t>(getpid()), true);   // abort()
    allow_if(__NR_prctl, 0, BPF_JEQ, PR_SET_NAME, true);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }

  bool install() {
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
  }

 private:
  void add(uint16_t code, uint32_t value) { code_.push_back(BPF_STMT(code, value)); }

  void answer(uint32_t nr, uint32_t value) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1));
    add(BPF_RET | BPF_K, value);
  }

  // The low word of argument `at` decides; both machines are little-endian.
  void allow_if(uint32_t nr, size_t at, uint16_t test, uint32_t value, bool holds) {
    code_.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 4));
    add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * at));
    code_.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, static_cast<uint8_t>(holds ? 0 : 1), static_cast<uint8_t>(holds ? 1 : 0)));
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }

  std::vector<sock_filter> code_;
};

bool filter_calls() { return Filter().install(); }

#else
bool filter_calls() { return false; }
#endif

}  // namespace

bool confine(const Confines& confines) {
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
    fail(ErrorKind::internal, "privileges cannot be given up: {}", std::strerror(errno));
  limit(RLIMIT_CORE, 0, "core dumps");
  limit(RLIMIT_FSIZE, 0, "file sizes");
  limit(RLIMIT_CPU, static_cast<rlim_t>(confines.cpu_seconds), "processor time", 5);   // SIGXCPU first, which says what it was; then SIGKILL
  if (kSanitized) return false;
  limit(RLIMIT_NOFILE, 3, "open files");
  limit(RLIMIT_AS, static_cast<rlim_t>(confines.memory_bytes), "memory");
  return filter_calls();
}

}  // namespace zt
