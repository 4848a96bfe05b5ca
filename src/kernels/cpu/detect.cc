// What this x86 processor and its system allow.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "kernels/ops.h"

namespace zt {

namespace {

struct Leaf { unsigned a = 0, b = 0, c = 0, d = 0; };

Leaf cpuid(unsigned leaf, unsigned sub) {
  Leaf r;
  if (!__get_cpuid_count(leaf, sub, &r.a, &r.b, &r.c, &r.d)) r = Leaf{};
  return r;
}

// Register state that the system saves: bits 1-2 SSE and AVX, 5-7 AVX-512, 17-18 tiles.
uint64_t saved_state() {
  if (!(cpuid(1, 0).c & bit_OSXSAVE)) return 0;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

bool has(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

bool has_avx2() {
  return has(saved_state(), 0x6) && has(cpuid(1, 0).c, bit_FMA | bit_F16C | bit_AVX) && has(cpuid(7, 0).b, bit_AVX2);
}

bool has_avx512() {
  return has_avx2() && has(saved_state(), 0xE6) &&
         has(cpuid(7, 0).b, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL);
}

bool has_amx() {
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;   // cpuid 7.0 edx
  constexpr unsigned kVbmi = 1u << 1;                            // cpuid 7.0 ecx
  constexpr unsigned kAvx512Bf16 = 1u << 5;                      // cpuid 7.1 eax
  constexpr int kRequestPermission = 0x1023, kTileData = 18;     // ARCH_REQ_XCOMP_PERM, for the whole process
  if (!has_avx512() || !has(saved_state(), 0x60000)) return false;
  if (!has(cpuid(7, 0).d, kAmxBf16 | kAmxTile) || !has(cpuid(7, 0).c, kVbmi) || !has(cpuid(7, 1).a, kAvx512Bf16)) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

bool isa_available(const char* name) {
  if (!std::strcmp(name, "avx2")) return has_avx2();
  if (!std::strcmp(name, "avx512")) return has_avx512();
  return !std::strcmp(name, "amx") && has_amx();
}

}  // namespace zt
