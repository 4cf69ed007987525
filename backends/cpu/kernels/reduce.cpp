#include "backends/cpu/kernels/reduce.h"

#include <limits>

#include "backends/cpu/parallel.h"

namespace backends::cpu::kernels {

CPU_KERNEL void column_sum(const float* x, int64_t rows, int64_t stride, int64_t columns,
                           double* total) {
  int64_t r = 0;
  // Four rows at a time: the totals are read and written a quarter as often.
  for (; r + 4 <= rows; r += 4, x += 4 * stride) {
    const float *a = x, *b = x + stride, *c = x + 2 * stride, *d = x + 3 * stride;
    for (int64_t i = 0; i < columns; ++i) {
      total[i] += (static_cast<double>(a[i]) + b[i]) + (static_cast<double>(c[i]) + d[i]);
    }
  }
  for (; r < rows; ++r, x += stride) {
    for (int64_t i = 0; i < columns; ++i) total[i] += x[i];
  }
}

CPU_KERNEL void column_max(const float* x, int64_t rows, int64_t stride, int64_t columns,
                           double* total) {
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    for (int64_t i = 0; i < columns; ++i) total[i] = x[i] > total[i] ? x[i] : total[i];
  }
}

CPU_KERNEL double row_sum(const float* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

CPU_KERNEL double row_max(const float* x, int64_t count) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

CPU_KERNEL void store_scaled(const double* total, double factor, float* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(total[i] * factor);
}

}  // namespace backends::cpu::kernels
