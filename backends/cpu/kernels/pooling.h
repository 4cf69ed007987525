// Serial pooling kernels. Each computes one row of pixels for `channels` neighbouring channels of
// one image.
#ifndef BACKENDS_CPU_KERNELS_POOLING_H_
#define BACKENDS_CPU_KERNELS_POOLING_H_

#include <cstdint>

#include "backends/cpu/window.h"

namespace backends::cpu::kernels {

// The sizes of a pooling, in pixels.
struct PoolShape {
  Window window;
  int64_t h = 0, w = 0;  // height and width of x
  int64_t p = 0, q = 0;  // height and width of y
  bool include_padding = true;
};

// Some channels of an image: those of pixel i begin at data + i * stride.
template <typename T>
struct Pixels {
  T* data;
  int64_t stride;
};

template <typename Index>
struct MaxPoolKernels {
  // Computes row `row` of y. y and winner point at the first pixel of that row;
  // max_pool_saved_element_bytes says what `winner` holds.
  void (*max_pool_row)(const PoolShape& shape, Pixels<const float> x, int64_t row, Pixels<float> y,
                       Pixels<Index> winner, int64_t channels);
  // Computes row `row` of dx, whose first pixel `dx` points at, by gathering from all of dy, like
  // avg_pool_backward_row below.
  void (*max_pool_backward_row)(const PoolShape& shape, Pixels<const float> dy,
                                Pixels<const Index> winner, int64_t row, Pixels<float> dx,
                                int64_t channels);
};

// The kernels of one instruction set.
struct PoolingKernels : MaxPoolKernels<uint8_t>, MaxPoolKernels<int32_t> {
  // Computes row `row` of y from x. `y` points at the first pixel of that row.
  void (*avg_pool_row)(const PoolShape& shape, Pixels<const float> x, int64_t row, Pixels<float> y,
                       int64_t channels);
  // Computes row `row` of dx, whose first pixel `dx` points at, by gathering from all of dy. So no
  // two threads add to one element, and the order of every sum is fixed.
  void (*avg_pool_backward_row)(const PoolShape& shape, Pixels<const float> dy, int64_t row,
                                Pixels<float> dx, int64_t channels);
  // y[c] = factor times the sum of x over `count` pixels.
  void (*pixel_mean)(Pixels<const float> x, int64_t count, float factor, float* y,
                     int64_t channels);
  // Sets each of `count` pixels of y to factor * x.
  void (*pixel_spread)(const float* x, float factor, Pixels<float> y, int64_t count,
                       int64_t channels);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_POOLING_H_
