// Cross-entropy of logits whose classes are split over tensor-parallel ranks; see
// plugins/operations.md.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/check.h"
#include "backends/reference/families.h"
#include "backends/reference/row.h"

namespace backends::reference {
namespace {

struct ScoresShape {
  int64_t rows, width, first_class;
};

// Checks logits [...,c] and labels [...].
ScoresShape check_logits(const Operation& op, rt_dtype dtype) {
  const Dims logits = dims_of(input_of_min_rank(op, 0, "logits", 1));
  const Dims rows(logits.begin(), logits.end() - 1);
  if (logits.back() < 1) op.fail("operand 0 (logits) has no class, expected at least one");
  expect_input(op, 0, "logits", dtype, logits);
  expect_input(op, 1, "labels", RT_INT32, rows);
  return {product(rows), logits.back(), integer_at_least(op, RT_ATTR_FIRST_CLASS, 0, 0)};
}

template <typename T>
void statistics(const ScoresShape& s, const Buffers& b) {
  const int32_t* labels = b.input<int32_t>(1);
  for (int64_t i = 0; i < s.rows; ++i) {
    const T* row = b.input<T>(0) + i * s.width;
    T* part = b.output<T>(0) + 4 * i;
    const RowSum sum = sum_row(row, s.width);
    const int64_t label = labels[i] - s.first_class;
    part[0] = static_cast<T>(sum.largest);
    const bool nothing = sum.largest == -std::numeric_limits<double>::infinity();
    part[1] = nothing ? T(0) : static_cast<T>(std::exp(sum.log_sum));
    part[2] = label >= 0 && label < s.width ? row[label] : T(0);
    part[3] = first_largest(row, s.width) == label ? T(1) : T(0);
  }
}

// Merges parts [groups,rows,4].
template <typename T>
void merge(int64_t groups, int64_t rows, const Buffers& b) {
  const T* weight = b.input<T>(1);
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const T* part = b.input<T>(0) + 4 * i;
    T* row = b.output<T>(1) + 2 * i;
    row[0] = row[1] = T(0);
    // A padding row may hold anything, even NaN.
    if (weight[i] == T(0)) continue;
    const T* first = part;
    for (int64_t g = 1; g < groups; ++g) {
      const T* p = part + 4 * rows * g;
      if (p[0] > first[0] || (p[0] != p[0] && first[0] == first[0])) first = p;
    }
    const double largest = first[0];
    correct += weight[i] > T(0) && first[3] != T(0);
    double sum = 0, label = 0;
    for (int64_t g = 0; g < groups; ++g) {
      const T* p = part + 4 * rows * g;
      sum += p[1] * std::exp(p[0] - largest);
      label += p[2];
    }
    row[0] = static_cast<T>(largest);
    row[1] = static_cast<T>(std::log(sum));
    loss += weight[i] * (std::log(sum) - (label - largest));
  }
  *b.output<T>(0) = static_cast<T>(loss);
  *b.output<T>(2) = static_cast<T>(correct);
}

template <typename T>
void backward_apply(const ScoresShape& s, const Buffers& b) {
  const T* weight = b.input<T>(2);
  const double dloss = *b.input<T>(3);
  for (int64_t i = 0; i < s.rows; ++i) {
    const T* row = b.input<T>(0) + i * s.width;
    const T* all = b.input<T>(4) + 2 * i;
    const int64_t label = b.input<int32_t>(1)[i] - s.first_class;
    for (int64_t j = 0; j < s.width; ++j) {
      const double probability = std::exp((static_cast<double>(row[j]) - all[0]) - all[1]);
      b.output<T>(0)[i * s.width + j] =
          weight[i] == T(0)
              ? T(0)
              : static_cast<T>(weight[i] * dloss * (probability - (j == label ? 1.0 : 0.0)));
    }
  }
}

}  // namespace

Kernel make_cross_entropy_statistics(const Operation& op) {
  expect_counts(op, 2, 1);
  const rt_dtype dtype = floating_input(op, 0, "logits");
  const ScoresShape s = check_logits(op, dtype);
  expect_output(op, 0, "part", dtype, {1, s.rows, 4});
  return floating_kernel(dtype, {}, [s]<typename T>(const Buffers& b) { statistics<T>(s, b); });
}

Kernel make_cross_entropy_merge(const Operation& op) {
  expect_counts(op, 2, 3);
  const rt_dtype dtype = floating_input(op, 0, "parts");
  const Dims weight = dims_of(op.input(1));
  const int64_t groups = input_of_rank(op, 0, "parts", 3).dims[0], rows = product(weight);
  if (groups < 1) op.fail("operand 0 (parts) has no part, expected at least one");
  expect_input(op, 0, "parts", dtype, {groups, rows, 4});
  expect_input(op, 1, "weight", dtype, weight);
  expect_output(op, 0, "loss", dtype, {1});
  expect_output(op, 1, "rows", dtype, {rows, 2});
  expect_output(op, 2, "count", dtype, {1});
  return floating_kernel(dtype, {},
                         [=]<typename T>(const Buffers& b) { merge<T>(groups, rows, b); });
}

Kernel make_cross_entropy_backward_apply(const Operation& op) {
  expect_counts(op, 5, 1);
  const rt_dtype dtype = floating_input(op, 0, "logits");
  const ScoresShape s = check_logits(op, dtype);
  expect_input(op, 2, "weight", dtype, dims_of(op.input(1)));
  expect_input(op, 3, "dloss", dtype, {1});
  expect_input(op, 4, "rows", dtype, {s.rows, 2});
  expect_output(op, 0, "dlogits", dtype, dims_of(op.input(0)));
  return floating_kernel(dtype, {}, [s]<typename T>(const Buffers& b) { backward_apply<T>(s, b); });
}

}  // namespace backends::reference
