// Names of instruction sets, and the widest one that this processor has.
#include "backends/cpu/isa.h"

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

}  // namespace backends::cpu
