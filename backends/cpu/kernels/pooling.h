// Serial pooling kernels: one row of pixels, `channels` neighbouring channels of one image.
#ifndef BACKENDS_CPU_KERNELS_POOLING_H_
#define BACKENDS_CPU_KERNELS_POOLING_H_

#include <cstdint>

#include "backends/cpu/window.h"

namespace backends::cpu::kernels {

struct PoolShape {
  Window window;
  int64_t h = 0, w = 0;  // of x
  int64_t p = 0, q = 0;  // of y
  bool include_padding = true;
};

// Some channels of an image: pixel i is at data + i * stride.
template <typename T>
struct Pixels {
  T* data;
  int64_t stride;
};

template <typename Index>
struct MaxPoolKernels {
  // Row `row` of y, which points at the first pixel of that row, as `winner` does; see
  // max_pool_saved_element_bytes.
  void (*max_pool_row)(const PoolShape& shape, Pixels<const float> x, int64_t row, Pixels<float> y,
                       Pixels<Index> winner, int64_t channels);
  // See avg_pool_backward_row.
  void (*max_pool_backward_row)(const PoolShape& shape, Pixels<const float> dy,
                                Pixels<const Index> winner, int64_t row, Pixels<float> dx,
                                int64_t channels);
};

struct PoolingKernels : MaxPoolKernels<uint8_t>, MaxPoolKernels<int32_t> {
  // Row `row` of y from x. `y` points at the first pixel of that row.
  void (*avg_pool_row)(const PoolShape& shape, Pixels<const float> x, int64_t row, Pixels<float> y,
                       int64_t channels);
  // Row `row` of dx (pointing at its first pixel) gathered from all of dy: no two threads add to
  // one element, and the order of the sums is fixed.
  void (*avg_pool_backward_row)(const PoolShape& shape, Pixels<const float> dy, int64_t row,
                                Pixels<float> dx, int64_t channels);
  // y[c] = factor * sum over `count` pixels of x.
  void (*pixel_mean)(Pixels<const float> x, int64_t count, float factor, float* y,
                     int64_t channels);
  // Every pixel of y = factor * x.
  void (*pixel_spread)(const float* x, float factor, Pixels<float> y, int64_t count,
                       int64_t channels);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_POOLING_H_
