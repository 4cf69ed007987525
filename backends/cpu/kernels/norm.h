// Serial kernels of the normalisations. "Pixels" lie `stride` floats apart and have `channels`
// neighbouring channels each.
#ifndef BACKENDS_CPU_KERNELS_NORM_H_
#define BACKENDS_CPU_KERNELS_NORM_H_

#include <cstdint>

namespace backends::cpu::kernels {

inline constexpr int64_t kMostPixels = 256;  // of add_statistics and add_gradient_sums

struct NormKernels {
  // Adds `pixels` pixels to running statistics of `before` pixels: mean and sum of squared
  // differences of every channel (Chan, Golub, LeVeque, "Algorithms for computing the sample
  // variance", 1983). The pixels are read twice, the second time for their differences from nearly
  // their mean, which correct it: they should fit the first-level cache, and be few enough for sums
  // in float (kMostPixels). They are dense, and counted from `first` as if the listed rows of
  // `row_pixels` pixels of x followed each other.
  void (*add_statistics)(const float* x, const int64_t* rows, int64_t row_pixels, int64_t first,
                         int64_t pixels, int64_t channels, int64_t before, double* mean,
                         double* squares);
  // Adds statistics [2][channels] of `count` > 0 pixels to those of `before` pixels; without any,
  // the result is a copy.
  void (*merge_statistics)(const double* part, double count, int64_t channels, double before,
                           double* total);

  // y = (x - mean) factor + shift, each by channel.
  void (*normalise)(const float* x, int64_t stride, int64_t pixels, int64_t channels,
                    const float* mean, const float* factor, const float* shift, float* y);

  // sum += dy, product += dy (x - mean), by channel.
  void (*add_gradient_sums)(const float* dy, const float* x, int64_t stride, int64_t pixels,
                            int64_t channels, const float* mean, double* sum, double* product);
  // dx = factor (dy - offset - (x - mean) slope), each by channel.
  void (*normalise_backward)(const float* dy, const float* x, int64_t stride, int64_t pixels,
                             int64_t channels, const float* mean, const float* factor,
                             const float* offset, const float* slope, float* dx);

  // Rows of `columns`: saved holds of each row a float near the mean, 1 / sqrt(var + epsilon), and
  // what is to be added to (x - mean) / sqrt(var + epsilon), because that float is not the mean.
  void (*layer_norm_rows)(const float* x, const float* gamma, const float* beta, float epsilon,
                          float* y, float* saved, int64_t rows, int64_t columns);
  // sums: [2][columns], dgamma and dbeta of these rows are added to it.
  void (*layer_norm_backward_rows)(const float* dy, const float* x, const float* gamma,
                                   const float* saved, float* dx, double* sums, int64_t rows,
                                   int64_t columns);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_NORM_H_
