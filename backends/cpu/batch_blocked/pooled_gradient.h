// conv2d_pool2d_backward_weights in the batch-blocked layout. The gradient of the image between the
// convolution and the pooling exists only in registers or, a few rows at a time, in the
// second-level cache.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_POOLED_GRADIENT_H_
#define BACKENDS_CPU_BATCH_BLOCKED_POOLED_GRADIENT_H_

#include "backends/cpu/batch_blocked/pooled_shape.h"
#include "backends/cpu/batch_blocked/weight_gradient.h"

namespace backends::cpu::batch_blocked {

// The gradient of the weights and the bias of one shape. Immutable after construction: run() may be
// called in several threads at once with different buffers. The result has the same bits every time
// for a given number of threads. The lanes of absent samples may hold anything.
class PooledGradient {
 public:
  // `threads` >= 1. `kernels` outlives this object.
  PooledGradient(const PooledShape& shape, int threads, const KernelTable& kernels);

  uint64_t workspace_bytes() const;
  // x and dy are in the blocked layout; dw [O,KH,KW,C] and db [O] are canonical and not null.
  // `saved` is what the forward pass wrote, or null. All buffers are aligned to 64 bytes. Allocates
  // nothing.
  void run(const float* x, const float* dy, const uint16_t* saved, float* dw, float* db,
           void* workspace) const;
  // Estimated cycles of a core that does one vector product per cycle, without the time for memory.
  double cycles() const;

 private:
  // Adds what a strip of the image, or a whole sample block, contributes.
  void add_strip(const float* x, float* dy, uint16_t* saved, float* image, float* sums,
                 int64_t strip) const;
  // Whether no strip is needed: windows of 2x2 whose bits a kernel of the gradient reads itself.
  bool keeps_in_registers() const;
  // Ranges of rows of windows into which a sample block is cut if no strip is needed, so that there
  // is work for all threads.
  int64_t ranges_per_block() const;
  int64_t image_floats() const;
  int64_t weights() const;
  // Elements of one thread: its strip of the image, its sums, and its part of the result.
  int64_t thread_floats() const;

  PooledShape shape_;
  int threads_;
  const KernelTable* kernels_;
  PooledStrips strips_;
  WeightGradient gradient_;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_POOLED_GRADIENT_H_
