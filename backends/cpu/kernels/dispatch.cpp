// Picks the elementwise and row kernels that were compiled for the instruction set of a device.
#include "backends/cpu/kernels/table.h"

namespace backends::cpu::kernels {

extern const Table kGenericKernels;
#if defined(__x86_64__)
extern const Table kAvx512Kernels, kAvx2Kernels;
#endif

const Table& kernels_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kGenericKernels;
}

}  // namespace backends::cpu::kernels
