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
#include "backends/cpu/batch_blocked/vector_kernels.inc"
#include "backends/cpu/batch_blocked/conv_kernels.inc"
#include "backends/cpu/batch_blocked/pooled_kernels.inc"
#include "backends/cpu/batch_blocked/weight_kernels.inc"
#include "backends/cpu/batch_blocked/other_kernels.inc"
#include "backends/cpu/batch_blocked/pair_kernels.inc"
#include "backends/cpu/batch_blocked/gradient_kernels.inc"
#include "backends/cpu/batch_blocked/winograd_kernels.inc"
#include "backends/cpu/batch_blocked/small_register_tables.inc"
// clang-format on
}  // namespace

extern const KernelTable kGenericKernels;
const KernelTable kGenericKernels = {
    "generic",  kLanes,
    kConv,      sizeof(kConv) / sizeof(kConv[0]),
    kWeights,   sizeof(kWeights) / sizeof(kWeights[0]),
    kPairs,     sizeof(kPairs) / sizeof(kPairs[0]),
    kWinograd,  sizeof(kWinograd) / sizeof(kWinograd[0]),
    sum_lanes,  avg_pool,
    max_pool,   max_pool_backward,
    pool_row,   unpool_row,
    kPooled,    sizeof(kPooled) / sizeof(kPooled[0]),
    apply_post, to_block,
    from_block,
};

extern const GradientKernels kGenericGradientKernels;
const GradientKernels kGenericGradientKernels = gradient_kernels("generic", 300, 20);

}  // namespace backends::cpu::batch_blocked
