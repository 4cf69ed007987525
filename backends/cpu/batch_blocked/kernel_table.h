// The inner kernels of the batch-blocked layout; there is one table for each instruction set.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_KERNEL_TABLE_H_
#define BACKENDS_CPU_BATCH_BLOCKED_KERNEL_TABLE_H_

#include "backends/cpu/batch_blocked/kernel_arguments.h"
#include "backends/cpu/batch_blocked/winograd_arguments.h"
#include "backends/cpu/isa.h"

namespace backends::cpu::batch_blocked {

// The kernels of one instruction set. Any thread may call them, with buffers of its own.
struct KernelTable {
  const char* name;  // "avx512", "avx2" or "generic"
  int32_t lanes;     // floats per register
  const ConvKernel* conv;
  int32_t conv_count;
  const WeightKernel* weights;
  int32_t weights_count;
  const PairKernel* pairs;
  int32_t pairs_count;
  const WinogradKernel* winograd;
  int32_t winograd_count;
  // to[i] = the sum of acc[i][0..15], added as a fixed tree. `count` is a multiple of kBlock.
  void (*sum_lanes)(const float* acc, float* to, int64_t count);
  void (*avg_pool)(const PoolWindow&);  // forward and backward
  void (*max_pool)(const PoolWindow&);
  void (*max_pool_backward)(const PoolWindow&);
  // pool_row writes `pooled` and, if it is not null, `passes`; unpool_row, its adjoint, reads both
  // and writes the whole image.
  void (*pool_row)(const PooledRow&);
  void (*unpool_row)(const PooledRow&);
  const PooledConv* pooled;
  int32_t pooled_count;
  // Applies `post` in place to the `count` floats (a multiple of kBlock) of a tensor from `offset`
  // on; `y` points at the first of them. `channels` is the number of channels of the tensor.
  void (*apply_post)(float* y, int64_t offset, int64_t count, int32_t channels,
                     const PostOps& post);
  // to_block writes rows [samples][elements], which begin `row` floats apart, to block
  // [elements][kBlock] and sets the lanes of absent samples to 0. from_block does the inverse.
  void (*to_block)(const float* rows, int64_t row, int32_t samples, int64_t elements, float* block);
  void (*from_block)(const float* block, int64_t elements, int32_t samples, float* rows,
                     int64_t row);
};

// The kernels compiled for `isa`, which this processor must have. The table lives as long as the
// process.
const KernelTable& kernels_for(Isa isa);
}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_KERNEL_TABLE_H_
