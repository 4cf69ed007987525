// conv2d_pool2d and its weight gradient in the batch-blocked layout. A few rows of the image
// between the convolution and the pooling are in the second-level cache at a time, and no more of
// it exists.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_POOLED_CONVOLUTION_H_
#define BACKENDS_CPU_BATCH_BLOCKED_POOLED_CONVOLUTION_H_

#include "backends/cpu/batch_blocked/convolution.h"
#include "backends/cpu/batch_blocked/weight_gradient.h"

namespace backends::cpu::batch_blocked {

// A convolution, then relu if `relu`, then a pooling whose windows of window_h x window_w do not
// overlap.
struct PooledShape {
  ConvShape conv;
  int64_t window_h, window_w;
  bool average, relu;

  // Of the result. Rows and columns of the image that fill no window are left out.
  int64_t rows() const { return conv.p / window_h; }
  int64_t columns() const { return conv.q / window_w; }
  // Bytes of what the forward pass saves: PooledRow::passes of all rows. 0: every gradient passes.
  uint64_t saved_bytes() const;
};

// The strips into which both passes cut the image: whole rows of windows of one sample block.
class PooledStrips {
 public:
  explicit PooledStrips(const PooledShape& shape);

  // Strips of all sample blocks; number i is strip i % per_block() of block i / per_block().
  int64_t count() const { return sample_blocks(shape_.conv.n) * per_block(); }
  int64_t per_block() const { return (shape_.rows() + windows_ - 1) / windows_; }
  // Rows of the image in a strip; the last one of a block may have fewer.
  int64_t image_rows() const { return windows_ * shape_.window_h; }
  int64_t image_floats() const { return image_rows() * shape_.conv.q * shape_.conv.o * kBlock; }
  // The rows of windows of a strip.
  int64_t begin(int64_t strip) const { return strip % per_block() * windows_; }
  int64_t end(int64_t strip) const;
  // Row r of the windows of a strip, whose part of the image is `image`; `pooled` and `saved` are
  // those of the whole tensor, and `saved` may be null.
  PooledRow row(int64_t strip, int64_t r, float* image, float* pooled, uint16_t* saved) const;

 private:
  PooledShape shape_;
  int64_t windows_;  // rows of windows in a strip
};

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
  PooledShape shape_;
  int threads_;
  const KernelTable* kernels_;
  PooledStrips strips_;
  Convolution convolution_;
};

// The gradient of the weights and the bias, under the same conditions. The result has the same bits
// every time for a given number of threads. The lanes of absent samples may hold anything.
class PooledGradient {
 public:
  PooledGradient(const PooledShape& shape, int threads, const KernelTable& kernels);

  uint64_t workspace_bytes() const;
  // dw and db are canonical and not null; `saved` is what the forward pass wrote.
  void run(const float* x, const float* dy, const uint16_t* saved, float* dw, float* db,
           void* workspace) const;
  double cycles() const;

 private:
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

#endif  // BACKENDS_CPU_BATCH_BLOCKED_POOLED_CONVOLUTION_H_
