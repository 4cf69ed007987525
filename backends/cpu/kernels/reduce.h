// Serial reductions. A block is a dense array [rows][columns] of float.
#ifndef BACKENDS_CPU_KERNELS_REDUCE_H_
#define BACKENDS_CPU_KERNELS_REDUCE_H_

#include <cstdint>

namespace backends::cpu::kernels {

struct ReductionKernels {
  // total[c] += sum over rows of x[r * stride + c]. In double: bias gradients add many rows.
  void (*column_sum)(const float* x, int64_t rows, int64_t stride, int64_t columns, double* total);
  // total[c] = the larger of itself and what is in the column; NaN counts as the largest, as in
  // row_max.
  void (*column_max)(const float* x, int64_t rows, int64_t stride, int64_t columns, double* total);
  double (*row_sum)(const float* x, int64_t count);
  double (*row_max)(const float* x, int64_t count);
  void (*store_scaled)(const double* total, double factor, float* y, int64_t count);
};

}  // namespace backends::cpu::kernels

#endif  // BACKENDS_CPU_KERNELS_REDUCE_H_
