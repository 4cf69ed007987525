// Serial reductions of dense arrays of float.
#ifndef BACKENDS_CPU_KERNELS_REDUCE_H_
#define BACKENDS_CPU_KERNELS_REDUCE_H_

#include <cstdint>

namespace backends::cpu::kernels {

// The kernels of one instruction set.
struct ReductionKernels {
  // total[c] += the sum over rows of x[r * stride + c], in double because bias gradients add many
  // rows.
  void (*column_sum)(const float* x, int64_t rows, int64_t stride, int64_t columns, double* total);
  // total[c] = the larger of total[c] and the maximum of column c. NaN counts as the largest, as in
  // row_max.
  void (*column_max)(const float* x, int64_t rows, int64_t stride, int64_t columns, double* total);
  // The sum of x, added in double, and the maximum of x, which is NaN if x contains one.
  double (*row_sum)(const float* x, int64_t count);
  double (*row_max)(const float* x, int64_t count);
  // y = factor * total, rounded to float.
  void (*store_scaled)(const double* total, double factor, float* y, int64_t count);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_REDUCE_H_
