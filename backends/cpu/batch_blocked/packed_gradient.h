// conv2d_backward_weights, with the bias gradient, in the batch-blocked layout, as products of
// packed matrices.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_PACKED_GRADIENT_H_
#define BACKENDS_CPU_BATCH_BLOCKED_PACKED_GRADIENT_H_

#include "backends/cpu/batch_blocked/gradient_kernels.h"
#include "backends/cpu/batch_blocked/weight_gradient.h"

namespace backends::cpu::batch_blocked {

// A weight gradient of one shape. For each tap it is the sum of products of matrices, one for each
// pixel and each pair of sample blocks. A packed row of x serves every tap and all tiles of dy.
// Immutable after construction: run() may be called in several threads at once with different
// buffers. The result has the same bits every time for a given number of threads.
class PackedGradient {
 public:
  // `threads` >= 1; the tables outlive this object.
  PackedGradient(const ConvShape& shape, int threads, const GradientKernels& kernels,
                 const KernelTable& exact);

  uint64_t workspace_bytes() const;

  // See WeightGradient::run(). Where x or dy hold numbers that cannot be packed, the whole result
  // is that of a WeightGradient.
  void run(const float* x, const float* dy, float* dw, float* db, void* workspace) const;

  // Estimated cycles of a core, over all threads, without the time for memory.
  double cycles() const;

 private:
  // The threads form a grid: each sums over some output rows (of all pairs of sample blocks, one
  // after the other), for some tiles of output channels.
  struct Grid {
    int64_t row_parts, output_parts;
  };
  struct Call;
  class Member;  // what one thread does

  int64_t taps() const { return shape_.kh * shape_.kw; }
  int64_t tile_floats() const { return kernels_->outputs * kernels_->inputs; }
  int64_t rows() const { return (sample_blocks(shape_.n) + 1) / 2 * shape_.p; }
  // The most tiles of output channels of a member.
  int64_t member_outputs(const Grid& grid) const;
  double member_cycles(const Grid& grid) const;
  int64_t slots() const;
  // Bytes of a packed row, and of a member's packed rows, sums and lanes of the bias gradient.
  int64_t input_row_bytes() const;
  int64_t output_row_bytes() const;
  int64_t sums_bytes() const;
  int64_t member_bytes() const;
  void finish(const Call& call, int64_t part, int64_t parts) const;
  void finish_tile(const Call& call, int64_t output, int64_t input) const;
  void finish_bias(const Call& call) const;

  ConvShape shape_;
  int threads_;
  const GradientKernels* kernels_;
  int64_t input_tiles_, output_tiles_;
  Grid grid_{1, 1};
  int64_t chunk_ = 1;  // output rows that are packed, and multiplied, at a time
  WeightGradient exact_;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_PACKED_GRADIENT_H_
