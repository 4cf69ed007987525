#include "backends/cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace backends::cpu {

const char* kernel_suffix(Isa isa) {
  constexpr const char* kNames[] = {"generic", "avx2", "avx512"};
  return kNames[static_cast<int32_t>(isa)];
}

const char* option_name(Isa isa) {
  constexpr const char* kNames[] = {"sse41", "avx2", "avx512"};
  return kNames[static_cast<int32_t>(isa)];
}

Isa widest_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("x86-64-v4")) return Isa::kAvx512;
  if (__builtin_cpu_supports("x86-64-v3")) return Isa::kAvx2;
#endif
  return Isa::kGeneric;
}

std::vector<Isa> usable_isas() {
  std::vector<Isa> usable;
  for (const Isa isa : kIsas) {
    if (isa <= widest_isa()) usable.push_back(isa);
  }
  return usable;
}

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

}  // namespace backends::cpu
