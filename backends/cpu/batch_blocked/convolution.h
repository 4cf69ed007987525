// conv2d and conv2d_backward_data in the batch-blocked layout. Both use the same register tiles,
// with different taps.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_CONVOLUTION_H_
#define BACKENDS_CPU_BATCH_BLOCKED_CONVOLUTION_H_

#include "backends/cpu/batch_blocked/geometry.h"

namespace backends::cpu::batch_blocked {

// The kernel whose channel tiles pad this number of output channels least.
const ConvKernel& best_width(const KernelTable& kernels, int64_t channels);

// A convolution of one shape. Immutable after construction: run() may be called in several threads
// at once with different buffers.
class Convolution {
 public:
  // `threads` >= 1. `kernels` outlives this object.
  Convolution(const ConvShape& shape, Direction direction, int threads, const KernelTable& kernels);

  // Bytes for the packed weights. run() writes the workspace before it reads it.
  uint64_t workspace_bytes() const;

  // `in` and `out` are x and y (forward) or dy and dx, in the blocked layout; `weights` are
  // canonical [O,KH,KW,C]. A bias in `post` has one element for each channel of `out`. All buffers
  // are aligned to 64 bytes. Allocates nothing.
  void run(const float* in, const float* weights, float* out, void* workspace,
           const PostOps& post) const;

  // Estimated cycles of a core that does one vector product per cycle, without the time for memory.
  double cycles() const;

 private:
  bool forward() const { return direction_ == Direction::kForward; }
  int64_t strip_count() const { return static_cast<int64_t>(geometry_.strips.size()); }
  void pack(const float* weights, float* packed, int64_t begin, int64_t end) const;
  void run_unit(const float* in, const float* packed, float* out, const PostOps& post,
                int64_t unit) const;

  ConvShape shape_;
  const KernelTable* kernels_;
  Direction direction_;
  int threads_;
  Images images_;
  const ConvKernel* kernel_;
  int64_t channel_tiles_;
  int64_t channel_splits_ = 1;  // work items into which the channel tiles are divided
  Geometry geometry_;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_CONVOLUTION_H_
