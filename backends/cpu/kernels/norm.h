// Serial kernels of the normalisations. Pixels begin `stride` floats apart, and each has `channels`
// neighbouring channels.
#ifndef BACKENDS_CPU_KERNELS_NORM_H_
#define BACKENDS_CPU_KERNELS_NORM_H_

#include <cstdint>

namespace backends::cpu::kernels {

inline constexpr int64_t kMostPixels = 256;  // the most pixels in one call of add_statistics or
                                             // add_gradient_sums

// The kernels of one instruction set.
struct NormKernels {
  // Adds `pixels` pixels to the running statistics of `before` pixels: the mean and the sum of
  // squared differences of every channel (Chan, Golub, LeVeque, "Algorithms for computing the
  // sample variance", 1983). The pixels are read twice: once for an approximate mean, and once for
  // their differences from it, which correct the mean. They should fit the second-level cache and
  // be few enough for sums in float (kMostPixels). The pixels are dense and are counted from
  // `first` on, as if the rows of x listed in `rows`, of `row_pixels` pixels each, followed one
  // another.
  void (*add_statistics)(const float* x, const int64_t* rows, int64_t row_pixels, int64_t first,
                         int64_t pixels, int64_t channels, int64_t before, double* mean,
                         double* squares);
  // Adds the statistics [2][channels] of `count` > 0 pixels to those of `before` pixels. If
  // `before` is 0, the result is a copy of them.
  void (*merge_statistics)(const double* part, double count, int64_t channels, double before,
                           double* total);

  // y = (x - mean) factor + shift, with one mean, factor and shift per channel.
  void (*normalise)(const float* x, int64_t stride, int64_t pixels, int64_t channels,
                    const float* mean, const float* factor, const float* shift, float* y);

  // sum += dy and product += dy (x - mean), per channel.
  void (*add_gradient_sums)(const float* dy, const float* x, int64_t stride, int64_t pixels,
                            int64_t channels, const float* mean, double* sum, double* product);
  // dx = factor (dy - offset - (x - mean) slope), with one value of each per channel.
  void (*normalise_backward)(const float* dy, const float* x, int64_t stride, int64_t pixels,
                             int64_t channels, const float* mean, const float* factor,
                             const float* offset, const float* slope, float* dx);

  // Normalises rows of `columns` elements. `saved` holds three floats per row: a float near the
  // mean, 1 / sqrt(var + epsilon), and the term that corrects (x - mean) / sqrt(var + epsilon) for
  // the rounding of that float.
  void (*layer_norm_rows)(const float* x, const float* gamma, const float* beta, float epsilon,
                          float* y, float* saved, int64_t rows, int64_t columns);
  // `sums` is [2][columns]; dgamma and dbeta of these rows are added to it.
  void (*layer_norm_backward_rows)(const float* dy, const float* x, const float* gamma,
                                   const float* saved, float* dx, double* sums, int64_t rows,
                                   int64_t columns);
  // The same without a mean: `saved` holds 1 / sqrt(mean of x^2 + epsilon) of each row.
  void (*rms_norm_rows)(const float* x, const float* gamma, float epsilon, float* y, float* saved,
                        int64_t rows, int64_t columns);
  // dgamma [columns] of these rows is added to `sums`.
  void (*rms_norm_backward_rows)(const float* dy, const float* x, const float* gamma,
                                 const float* saved, float* dx, double* sums, int64_t rows,
                                 int64_t columns);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_NORM_H_
