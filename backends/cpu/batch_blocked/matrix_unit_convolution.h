// conv2d and conv2d_backward_data in the batch-blocked layout, by the matrix unit.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_MATRIX_UNIT_CONVOLUTION_H_
#define BACKENDS_CPU_BATCH_BLOCKED_MATRIX_UNIT_CONVOLUTION_H_

#include "backends/cpu/batch_blocked/convolution.h"
#include "backends/cpu/batch_blocked/matrix_unit_kernels.h"
#include "backends/cpu/products/product.h"

namespace backends::cpu::batch_blocked {

// A direct convolution of one shape. Immutable after construction: run() may be called in several
// threads at once with different buffers.
class MatrixUnitConvolution {
 public:
  // `threads` >= 1; matrix_unit_kernels() is not null; `kernels` outlives this object.
  MatrixUnitConvolution(const ConvShape& shape, Direction direction, int threads,
                        const KernelTable& kernels);

  // Bytes for the packed weights and, for each thread, a packed strip of the input.
  uint64_t workspace_bytes() const;

  // See Convolution::run(). Where x or the weights hold numbers that cannot be packed, the whole
  // result is that of a Convolution; therefore no operand of `post` may share the memory of `out`.
  void run(const float* in, const float* weights, float* out, void* workspace,
           const PostOps& post) const;

  // Estimated cycles of a core, over all threads, without the time for memory.
  double cycles() const;

 private:
  struct Call;
  bool forward() const { return direction_ == Direction::kForward; }
  int64_t strip_rows() const;
  int64_t strip_count() const { return static_cast<int64_t>(geometry_.strips.size()); }
  int64_t taps() const { return shape_.kh * shape_.kw; }
  int64_t strip_bytes() const;
  bool pack_weights(const Call& call, int64_t part, int64_t parts) const;
  bool run_unit(const Call& call, int64_t unit, char* strip) const;

  ConvShape shape_;
  Direction direction_;
  int threads_;
  const MatrixUnitKernels* kernels_;
  const products::KernelTable* packing_;  // of weights
  Images images_;
  int64_t steps_;          // of kMatrixChannels input channels
  int64_t channel_tiles_;  // of kMatrixChannels output channels
  int64_t channel_splits_ = 1;
  Geometry geometry_;
  Convolution exact_;
};

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_MATRIX_UNIT_CONVOLUTION_H_
