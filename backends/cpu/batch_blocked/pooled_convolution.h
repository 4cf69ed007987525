// conv2d_pool2d in the batch-blocked layout. The image between the convolution and the pooling
// exists only in registers or, a few rows at a time, in the second-level cache.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_POOLED_CONVOLUTION_H_
#define BACKENDS_CPU_BATCH_BLOCKED_POOLED_CONVOLUTION_H_

#include <vector>

#include "backends/cpu/batch_blocked/convolution.h"
#include "backends/cpu/batch_blocked/pooled_shape.h"

namespace backends::cpu::batch_blocked {

// The forward pass of one shape. Immutable after construction: run() may be called in several
// threads at once with different buffers.
class PooledConvolution {
 public:
  // `threads` >= 1. `kernels` outlives this object.
  PooledConvolution(const PooledShape& shape, int threads, const KernelTable& kernels);

  uint64_t workspace_bytes() const;
  // x and y are in the blocked layout, weights [O,KH,KW,C] and bias [O] canonical. `saved` has
  // PooledShape::saved_bytes() or is null. All buffers are aligned to 64 bytes. Allocates nothing.
  void run(const float* x, const float* weights, const float* bias, float* y, uint16_t* saved,
           void* workspace) const;
  // Estimated cycles of a core that does one vector product per cycle, without the time for memory.
  double cycles() const;

 private:
  int64_t packed_floats() const;
  void run_strip(const float* x, const PostOps& post, float* y, uint16_t* saved, void* workspace,
                 float* image, int64_t strip) const;
  void run_row(const float* x, const float* bias, float* y, uint16_t* saved, const float* packed,
               int64_t number) const;

  PooledShape shape_;
  int threads_;
  const KernelTable* kernels_;
  PooledStrips strips_;
  Convolution convolution_;
  // The kernel that keeps the image in registers, or null. It is for windows of 2x2 behind a
  // convolution without padding. The runs are those of every pixel.
  const PooledConv* in_registers_ = nullptr;
  std::vector<Run> runs_;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_POOLED_CONVOLUTION_H_
