#include "backends/cpu/kernels/rows.h"

#include <cmath>
#include <cstddef>

#include "backends/cpu/kernels/math.h"
#include "backends/cpu/parallel.h"

namespace backends::cpu::kernels {
namespace {

CPU_INLINE float row_max(const float* x, int64_t columns) {
  float largest = x[0];
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < columns; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// y = exp(x - largest); returns the sum.
CPU_INLINE float row_exp(const float* x, float largest, float* y, int64_t columns) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < columns; ++i) {
    const float e = fast_exp(x[i] - largest);
    y[i] = e;
    sum += e;
  }
  return sum;
}

CPU_INLINE float row_exp_sum(const float* x, float largest, int64_t columns) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < columns; ++i) sum += fast_exp(x[i] - largest);
  return sum;
}

CPU_INLINE int64_t first_largest(const float* x, int64_t columns) {
  int64_t best = 0;
  for (int64_t i = 1; i < columns; ++i) best = x[i] > x[best] ? i : best;
  return best;
}

}  // namespace

CPU_KERNEL void softmax_rows(const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float scale = 1.0f / row_exp(x, row_max(x, columns), y, columns);
    for (int64_t i = 0; i < columns; ++i) y[i] *= scale;
  }
}

CPU_KERNEL void log_softmax_rows(const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns, y += columns) {
    const float largest = row_max(x, columns);
    const float log_sum = std::log(row_exp_sum(x, largest, columns));
    for (int64_t i = 0; i < columns; ++i) y[i] = (x[i] - largest) - log_sum;
  }
}

CPU_KERNEL void softmax_backward_rows(const float* dy, const float* y, float* dx, int64_t rows,
                                      int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, dy += columns, y += columns, dx += columns) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < columns; ++i) sum += dy[i] * y[i];
    for (int64_t i = 0; i < columns; ++i) dx[i] = y[i] * (dy[i] - sum);
  }
}

CPU_KERNEL void log_softmax_backward_rows(const float* dy, const float* y, float* dx, int64_t rows,
                                          int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, dy += columns, y += columns, dx += columns) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < columns; ++i) sum += dy[i];
    for (int64_t i = 0; i < columns; ++i) dx[i] = dy[i] - fast_exp(y[i]) * sum;
  }
}

CPU_KERNEL double cross_entropy_rows(const float* logits, const int32_t* labels,
                                     const float* weight, int64_t rows, int64_t columns) {
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r, logits += columns) {
    const float largest = row_max(logits, columns);
    const float log_sum = std::log(row_exp_sum(logits, largest, columns));
    const float row = log_sum - (logits[labels[r]] - largest);
    // A padding row may hold anything, also infinities: weight 0 must drop it.
    if (weight[r] != 0.0f) loss += static_cast<double>(weight[r]) * row;
  }
  return loss;
}

CPU_KERNEL void cross_entropy_backward_rows(const float* logits, const int32_t* labels,
                                            const float* weight, float dloss, float* dlogits,
                                            int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, logits += columns, dlogits += columns) {
    const float factor = weight[r] * dloss;
    const float scale = factor / row_exp(logits, row_max(logits, columns), dlogits, columns);
    for (int64_t i = 0; i < columns; ++i) dlogits[i] *= scale;
    dlogits[labels[r]] -= factor;
  }
}

CPU_KERNEL void cross_entropy_part_rows(const float* logits, const int32_t* labels,
                                        int64_t first_class, float* part, int64_t rows,
                                        int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, logits += columns, part += 4) {
    const int64_t label = labels[r] - first_class;
    part[0] = row_max(logits, columns);
    part[1] = row_exp_sum(logits, part[0], columns);
    part[2] = label >= 0 && label < columns ? logits[label] : 0.0f;
    part[3] = first_largest(logits, columns) == label ? 1.0f : 0.0f;
  }
}

double cross_entropy_merge_rows(const float* parts, const float* weight, float* merged,
                                int64_t groups, int64_t rows, float* correct) {
  double loss = 0;
  int64_t count = 0;
  for (int64_t r = 0; r < rows; ++r, parts += 4, merged += 2) {
    merged[0] = merged[1] = 0.0f;
    // A padding row may hold anything, also infinities: weight 0 must drop it.
    if (weight[r] == 0.0f) continue;
    const float* first = parts;
    for (int64_t g = 1; g < groups; ++g) {
      if (parts[4 * rows * g] > first[0]) first = parts + 4 * rows * g;
    }
    const float largest = first[0];
    count += weight[r] > 0.0f && first[3] != 0.0f;
    double sum = 0, label = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const float* p = parts + 4 * rows * g;
      sum += p[1] * std::exp(static_cast<double>(p[0]) - largest);
      label += p[2];
    }
    merged[0] = largest;
    merged[1] = static_cast<float>(std::log(sum));
    loss += weight[r] * (std::log(sum) - (label - largest));
  }
  *correct = static_cast<float>(count);
  return loss;
}

CPU_KERNEL void cross_entropy_backward_apply_rows(const float* logits, const int32_t* labels,
                                                  const float* weight, float dloss,
                                                  const float* merged, int64_t first_class,
                                                  float* dlogits, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, logits += columns, dlogits += columns, merged += 2) {
    const float factor = weight[r] * dloss, largest = merged[0], log_sum = merged[1];
    if (weight[r] == 0.0f) {
      for (int64_t i = 0; i < columns; ++i) dlogits[i] = 0.0f;
      continue;
    }
    for (int64_t i = 0; i < columns; ++i)
      dlogits[i] = factor * fast_exp((logits[i] - largest) - log_sum);
    const int64_t label = labels[r] - first_class;
    if (label >= 0 && label < columns) dlogits[label] -= factor;
  }
}

CPU_KERNEL int64_t correct_rows(const float* logits, const int32_t* labels, const float* weight,
                                int64_t rows, int64_t columns) {
  int64_t correct = 0;
  for (int64_t r = 0; r < rows; ++r, logits += columns) {
    correct += weight[r] > 0.0f && first_largest(logits, columns) == labels[r];
  }
  return correct;
}

CPU_KERNEL double squared_error_rows(const float* y, const float* target, const float* weight,
                                     int64_t rows, int64_t columns) {
  double loss = 0;
  for (int64_t r = 0; r < rows; ++r, y += columns, target += columns) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < columns; ++i) sum += (y[i] - target[i]) * (y[i] - target[i]);
    if (weight[r] != 0.0f) {
      loss += static_cast<double>(weight[r]) * sum / static_cast<double>(columns);
    }
  }
  return loss;
}

CPU_KERNEL void squared_error_backward_rows(const float* y, const float* target,
                                            const float* weight, float dloss, float* dy,
                                            int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, y += columns, target += columns, dy += columns) {
    const float factor = 2.0f * weight[r] * dloss / static_cast<float>(columns);
    for (int64_t i = 0; i < columns; ++i) dy[i] = factor * (y[i] - target[i]);
  }
}

}  // namespace backends::cpu::kernels
