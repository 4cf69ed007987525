#include "backends/cpu/batch_blocked/kernel_table.h"

namespace backends::cpu::batch_blocked {

extern const KernelTable kGenericKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx512Kernels, kAvx2Kernels;
#endif

const KernelTable& kernels_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kGenericKernels;
}

}  // namespace backends::cpu::batch_blocked
