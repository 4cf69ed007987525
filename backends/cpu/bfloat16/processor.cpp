// Asks CPUID for bfloat16 instructions, and the kernel for permission to use the matrix unit.
#include "backends/cpu/bfloat16/processor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "backends/cpu/isa.h"

namespace backends::cpu {

// CPUID leaf 7: bit 5 of EAX of subleaf 1 is AVX512-BF16; bits 22 and 24 of EDX of subleaf 0 are
// AMX-BF16 and AMX-TILE.
bool has_bfloat16() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return widest_isa() == Isa::kAvx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a >> 5 & 1) != 0;
#else
  return false;
#endif
}

bool has_bfloat16_matrices() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return has_bfloat16() && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 22 & 1) != 0 &&
         (d >> 24 & 1) != 0;
#else
  return false;
#endif
}

bool can_use_matrix_unit() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr int kRequestPermission = 0x1023,
                kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return has_bfloat16_matrices() && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace backends::cpu
