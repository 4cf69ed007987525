// Picks the batch-blocked kernels that were compiled for the instruction set of a device.
#include "backends/cpu/batch_blocked/gradient_kernels.h"
#include "backends/cpu/batch_blocked/kernel_table.h"
#include "backends/cpu/batch_blocked/matrix_unit_kernels.h"
#include "backends/cpu/bfloat16/processor.h"

namespace backends::cpu::batch_blocked {

extern const KernelTable kGenericKernels;
extern const GradientKernels kGenericGradientKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx512Kernels, kAvx2Kernels;
extern const MatrixUnitKernels kAmxKernels;
extern const GradientKernels kAvx512GradientKernels, kAvx2GradientKernels, kAmxGradientKernels;
#endif

const KernelTable& kernels_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kGenericKernels;
}

const MatrixUnitKernels* matrix_unit_kernels() {
#if defined(__x86_64__)
  if (can_use_matrix_unit()) return &kAmxKernels;
#endif
  return nullptr;
}

const GradientKernels& gradient_kernels_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512GradientKernels;
  if (isa == Isa::kAvx2) return kAvx2GradientKernels;
#endif
  return kGenericGradientKernels;
}

const GradientKernels* matrix_unit_gradient_kernels() {
#if defined(__x86_64__)
  if (can_use_matrix_unit()) return &kAmxGradientKernels;
#endif
  return nullptr;
}

}  // namespace backends::cpu::batch_blocked
