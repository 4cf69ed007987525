// cross_entropy, mean_squared_error, their gradients, correct_count, and
// cross_entropy_with_gradient. `weight` has one number per row. The rows of logits are the vectors
// along their last dimension; a row of mean_squared_error is a sample (dimension 0).
#include "rt/sdk/losses.h"

#include <algorithm>
#include <cmath>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/row.h"

namespace backends::reference {
namespace {

using rt::sdk::class_rows;
using rt::sdk::LossShape;
using rt::sdk::sample_rows;

template <typename T>
void cross_entropy(const LossShape& s, const Buffers& b) {
  const T* logits = b.input<T>(0);
  const int32_t* labels = b.input<int32_t>(1);
  const T* weight = b.input<T>(2);
  double loss = 0;
  for (int64_t i = 0; i < s.rows; ++i) {
    const T* row = logits + i * s.width;
    // A padding row may hold anything, even NaN.
    if (weight[i] == T(0)) continue;
    loss -= weight[i] * sum_row(row, s.width).log_probability(row[labels[i]]);
  }
  *b.output<T>(0) = static_cast<T>(loss);
}

template <typename T>
void cross_entropy_backward(const LossShape& s, const Buffers& b, uint32_t output = 0) {
  const T* logits = b.input<T>(0);
  const int32_t* labels = b.input<int32_t>(1);
  const T* weight = b.input<T>(2);
  const double dloss = *b.input<T>(3);
  for (int64_t i = 0; i < s.rows; ++i) {
    const T* row = logits + i * s.width;
    T* result = b.output<T>(output) + i * s.width;
    if (weight[i] == T(0)) {
      std::fill_n(result, s.width, T(0));
      continue;
    }
    const RowSum sum = sum_row(row, s.width);
    for (int64_t j = 0; j < s.width; ++j) {
      const double probability = std::exp(sum.log_probability(row[j]));
      result[j] = static_cast<T>(weight[i] * dloss * (probability - (j == labels[i] ? 1.0 : 0.0)));
    }
  }
}

template <typename T>
void mean_squared_error(const LossShape& s, const Buffers& b) {
  const T* y = b.input<T>(0);
  const T* target = b.input<T>(1);
  const T* weight = b.input<T>(2);
  double loss = 0;
  for (int64_t i = 0; i < s.rows; ++i) {
    if (weight[i] == T(0)) continue;
    double sum = 0;
    for (int64_t j = i * s.width; j < (i + 1) * s.width; ++j) {
      const double difference = static_cast<double>(y[j]) - target[j];
      sum += difference * difference;
    }
    loss += weight[i] * sum / static_cast<double>(s.width);
  }
  *b.output<T>(0) = static_cast<T>(loss);
}

template <typename T>
void mean_squared_error_backward(const LossShape& s, const Buffers& b) {
  const T* y = b.input<T>(0);
  const T* target = b.input<T>(1);
  const T* weight = b.input<T>(2);
  const double dloss = *b.input<T>(3);
  for (int64_t i = 0; i < s.rows; ++i) {
    const double factor = weight[i] * dloss * 2.0 / static_cast<double>(s.width);
    for (int64_t j = i * s.width; j < (i + 1) * s.width; ++j) {
      const double difference = static_cast<double>(y[j]) - target[j];
      b.output<T>(0)[j] = weight[i] == T(0) ? T(0) : static_cast<T>(factor * difference);
    }
  }
}

template <typename T>
void correct_count(const LossShape& s, const Buffers& b, uint32_t output = 0) {
  const T* logits = b.input<T>(0);
  const int32_t* labels = b.input<int32_t>(1);
  const T* weight = b.input<T>(2);
  int64_t count = 0;
  for (int64_t i = 0; i < s.rows; ++i) {
    const T* row = logits + i * s.width;
    const bool correct = first_largest(row, s.width) == labels[i];
    if (weight[i] > T(0) && correct) ++count;
  }
  *b.output<T>(output) = static_cast<T>(count);
}

// The gradient is written last, and each of its elements after the logit that it depends on was
// read, so it may use the memory of the logits.
template <typename T>
void cross_entropy_with_gradient(const LossShape& s, bool counts, const Buffers& b) {
  cross_entropy<T>(s, b);
  if (counts) correct_count<T>(s, b, 2);
  cross_entropy_backward<T>(s, b, 1);
}

}  // namespace

Kernel make_cross_entropy(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "logits");
  const LossShape s = rt::sdk::loss_shape(op, dtype, class_rows);
  return floating_kernel(dtype, {}, [s]<typename T>(const Buffers& b) { cross_entropy<T>(s, b); });
}

Kernel make_cross_entropy_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "logits");
  const LossShape s = rt::sdk::loss_backward_shape(op, dtype, class_rows, "dlogits");
  return floating_kernel(dtype, {},
                         [s]<typename T>(const Buffers& b) { cross_entropy_backward<T>(s, b); });
}

Kernel make_cross_entropy_with_gradient(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "logits");
  const bool counts = op.output_count() == 3;
  expect_counts(op, 4, counts ? 3 : 2);
  const LossShape s = class_rows(op, dtype);
  expect_input(op, 3, "dloss", dtype, {1});
  expect_output(op, 0, "loss", dtype, {1});
  expect_output(op, 1, "dlogits", dtype, dims_of(op.input(0)));
  if (counts) expect_output(op, 2, "count", dtype, {1});
  return floating_kernel(dtype, {.in_place = {0, 1}}, [s, counts]<typename T>(const Buffers& b) {
    cross_entropy_with_gradient<T>(s, counts, b);
  });
}

Kernel make_mean_squared_error(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "y");
  const LossShape s = rt::sdk::loss_shape(op, dtype, sample_rows);
  return floating_kernel(dtype, {},
                         [s]<typename T>(const Buffers& b) { mean_squared_error<T>(s, b); });
}

Kernel make_mean_squared_error_backward(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "y");
  const LossShape s = rt::sdk::loss_backward_shape(op, dtype, sample_rows, "dy");
  return floating_kernel(
      dtype, {}, [s]<typename T>(const Buffers& b) { mean_squared_error_backward<T>(s, b); });
}

Kernel make_correct_count(const Operation& op) {
  const rt_dtype dtype = floating_input(op, 0, "logits");
  const LossShape s = rt::sdk::loss_shape(op, dtype, class_rows, "count");
  return floating_kernel(dtype, {}, [s]<typename T>(const Buffers& b) { correct_count<T>(s, b); });
}

}  // namespace backends::reference
