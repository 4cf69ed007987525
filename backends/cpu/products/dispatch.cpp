#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

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

#if defined(__linux__) && defined(__x86_64__)
namespace {

// CPUID leaf 7: bit 22 of EDX is AMX-BF16 and bit 24 is AMX-TILE.
bool has_matrix_unit() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0;
}

}  // namespace
#endif

const KernelTable* split_kernels() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr int kRequestPermission = 0x1023,
                kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  if (widest_isa() == Isa::kAvx512 && has_matrix_unit() &&
      syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) {
    return &kAmxKernels;
  }
#endif
  return nullptr;
}

const SplitKernels* split_image_kernels() {
#if defined(__linux__) && defined(__x86_64__)
  if (split_kernels() != nullptr) return &kAmxSplitKernels;
#endif
  return nullptr;
}

}  // namespace backends::cpu::products
