// The shape of conv2d_pool2d and of its gradient, and the strips into which both cut the image.
#ifndef BACKENDS_CPU_BATCH_BLOCKED_POOLED_SHAPE_H_
#define BACKENDS_CPU_BATCH_BLOCKED_POOLED_SHAPE_H_

#include "backends/cpu/batch_blocked/shapes.h"

namespace backends::cpu::batch_blocked {

// A convolution, then relu if `relu`, then a pooling whose windows of window_h x window_w do not
// overlap.
struct PooledShape {
  ConvShape conv;
  int64_t window_h, window_w;
  bool average, relu;

  // The rows and columns of the result. Those of the image that fill no window are left out.
  int64_t rows() const { return conv.p / window_h; }
  int64_t columns() const { return conv.q / window_w; }
  bool has_windows_of_two() const { return window_h == 2 && window_w == 2; }
  // Elements of what the forward pass saves for one row of windows.
  int64_t saved_row() const { return columns() * conv.o * window_h * window_w; }
  // Bytes of what the forward pass saves: PooledRow::passes of all rows. 0: every gradient passes.
  uint64_t saved_bytes() const;
};

// The strips into which both passes cut the image: whole rows of windows of one sample block.
class PooledStrips {
 public:
  explicit PooledStrips(const PooledShape& shape);

  // Strips of all sample blocks; number i is strip i % per_block() of block i / per_block().
  int64_t count() const { return sample_blocks(shape_.conv.n) * per_block(); }
  int64_t per_block() const { return divide_up(shape_.rows(), windows_); }
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

// Row number `number` of the windows of all sample blocks, without an image.
PooledRow pooled_row(const PooledShape& shape, int64_t number, float* pooled, uint16_t* saved);

// Cycles of a pooling or its adjoint in the cache.
double pooling_cycles(const PooledShape& shape, const KernelTable& kernels);

}  // namespace backends::cpu::batch_blocked

#endif  // BACKENDS_CPU_BATCH_BLOCKED_POOLED_SHAPE_H_
