#include "backends/cpu/batch_blocked/kernel_table.h"

namespace backends::cpu::batch_blocked {

extern const KernelTable kGenericKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx512Kernels, kAvx2Kernels;
#endif

namespace {
constexpr int kTables = 3;
struct Usable {
  const KernelTable* tables[kTables + 1] = {};
  Usable() {
    int count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
      tables[count++] = &kAvx512Kernels;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      tables[count++] = &kAvx2Kernels;
    }
#endif
    tables[count] = &kGenericKernels;
  }
};
}  // namespace

const KernelTable* const* usable_kernels() {
  static const Usable usable;
  return usable.tables;
}

const KernelTable& best_kernels() { return *usable_kernels()[0]; }

}  // namespace backends::cpu::batch_blocked
