// AVX2 has 16 registers of 8 floats, so each kernel processes a block of 16 samples in two passes
// of 8.
#include <utility>

#include "backends/cpu/batch_blocked/gradient_kernels.h"
#include "backends/cpu/batch_blocked/kernel_table.h"

namespace backends::cpu::batch_blocked {
namespace {
constexpr int kGradientOutputs = 6;
#define BB_LANES 8
// Each file uses names of the ones before it.
// clang-format off
#include "backends/cpu/batch_blocked/kernels.inc"
#include "backends/cpu/batch_blocked/small_register_tables.inc"
#include "backends/cpu/batch_blocked/kernel_table.inc"
// clang-format on
}  // namespace

extern const KernelTable kAvx2Kernels;
const KernelTable kAvx2Kernels = kernel_table("avx2");

extern const GradientKernels kAvx2GradientKernels;
const GradientKernels kAvx2GradientKernels = gradient_kernels("avx2", 420, 10);

}  // namespace backends::cpu::batch_blocked
