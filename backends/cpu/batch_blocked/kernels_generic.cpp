// The instruction set that the whole project is compiled for (SSE2 on x86-64), so these kernels run
// everywhere.
#include <utility>

#include "backends/cpu/batch_blocked/gradient_kernels.h"
#include "backends/cpu/batch_blocked/kernel_table.h"

namespace backends::cpu::batch_blocked {
namespace {
constexpr int kGradientOutputs = 4;
#define BB_LANES 4
// Each file uses names of the ones before it.
// clang-format off
#include "backends/cpu/batch_blocked/kernels.inc"
#include "backends/cpu/batch_blocked/small_register_tables.inc"
#include "backends/cpu/batch_blocked/kernel_table.inc"
// clang-format on
}  // namespace

extern const KernelTable kGenericKernels;
const KernelTable kGenericKernels = kernel_table("generic");

extern const GradientKernels kGenericGradientKernels;
const GradientKernels kGenericGradientKernels = gradient_kernels("generic", 300, 20);

}  // namespace backends::cpu::batch_blocked
