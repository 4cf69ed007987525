// Conversion between canonical [N, elements] and batch-blocked [ceil(N/16)][elements][16].
#ifndef BACKENDS_CPU_BATCH_BLOCKED_REORDER_H_
#define BACKENDS_CPU_BATCH_BLOCKED_REORDER_H_

#include "backends/cpu/batch_blocked/shapes.h"

namespace backends::cpu::batch_blocked {

// Both divide the work among `threads` threads. to_blocked fills the lanes of absent samples with
// 0.
void to_blocked(const float* canonical, int64_t samples, int64_t elements, float* blocked,
                int threads, const KernelTable& kernels);
void from_blocked(const float* blocked, int64_t samples, int64_t elements, float* canonical,
                  int threads, const KernelTable& kernels);

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_REORDER_H_
