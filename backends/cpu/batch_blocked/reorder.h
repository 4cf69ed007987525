// Canonical [N, elements] <-> batch-blocked [ceil(N/16)][elements][16].
#ifndef BACKENDS_CPU_BATCH_BLOCKED_REORDER_H_
#define BACKENDS_CPU_BATCH_BLOCKED_REORDER_H_

#include "backends/cpu/batch_blocked/shapes.h"

namespace backends::cpu::batch_blocked {

// Padding lanes become 0.
void to_blocked(const float* canonical, int64_t samples, int64_t elements, float* blocked,
                int threads, const KernelTable& kernels);
void from_blocked(const float* blocked, int64_t samples, int64_t elements, float* canonical,
                  int threads, const KernelTable& kernels);

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_REORDER_H_
