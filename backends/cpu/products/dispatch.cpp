// Picks the matrix-product kernels that were compiled for the instruction set of a device.
#include "backends/cpu/bfloat16/processor.h"
#include "backends/cpu/products/image_product.h"
#include "backends/cpu/products/product.h"

namespace backends::cpu::products {

extern const KernelTable kGenericKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx512Kernels, kAvx2Kernels, kAmxKernels;
extern const SplitKernels kAmxSplitKernels;
#endif

const KernelTable& kernels_for([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Kernels;
  if (isa == Isa::kAvx2) return kAvx2Kernels;
#endif
  return kGenericKernels;
}

const KernelTable* split_kernels() {
#if defined(__x86_64__)
  if (can_use_matrix_unit()) return &kAmxKernels;
#endif
  return nullptr;
}

const SplitKernels* split_image_kernels() {
#if defined(__x86_64__)
  if (can_use_matrix_unit()) return &kAmxSplitKernels;
#endif
  return nullptr;
}

}  // namespace backends::cpu::products
