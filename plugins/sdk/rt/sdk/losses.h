// The sizes of losses, of their gradients and of correct_count. `weight` has one number per row.
#ifndef RT_SDK_LOSSES_H_
#define RT_SDK_LOSSES_H_

#include "rt/sdk/expect.h"

namespace rt::sdk {

// A row is a vector of logits, along their last dimension, or a sample (dimension 0) of
// mean_squared_error.
struct LossShape {
  int64_t rows, width;  // number of rows, elements of each
};

// Checks logits [...,C], labels [...], weight [...]. All functions here throw the errors of
// rt/sdk/expect.h.
inline LossShape class_rows(const Operation& op, rt_dtype dtype) {
  const Dims logits = dims_of(input_of_min_rank(op, 0, "logits", 1));
  const Dims rows(logits.begin(), logits.end() - 1);
  if (logits.back() < 1) op.fail("operand 0 (logits) has no class, expected at least one");
  expect_input(op, 1, "labels", RT_INT32, rows);
  expect_input(op, 2, "weight", dtype, rows);
  return {product(rows), logits.back()};
}

// Checks y [N,...], target [N,...], weight [N].
inline LossShape sample_rows(const Operation& op, rt_dtype dtype) {
  const Dims y = dims_of(input_of_min_rank(op, 0, "y", 1));
  expect_input(op, 1, "target", dtype, y);
  expect_input(op, 2, "weight", dtype, {y[0]});
  return {y[0], product(Dims(y.begin() + 1, y.end()))};
}

// One of the two functions above.
using LossRows = LossShape (*)(const Operation&, rt_dtype);

// Reads three operands and the result [1], a loss or a count, called `result`.
inline LossShape loss_shape(const Operation& op, rt_dtype dtype, LossRows rows,
                            const char* result = "loss") {
  expect_counts(op, 3, 1);
  const LossShape s = rows(op, dtype);
  expect_output(op, 0, result, dtype, {1});
  return s;
}

// Reads three operands and dloss [1], and the gradient of operand 0, called `result`.
inline LossShape loss_backward_shape(const Operation& op, rt_dtype dtype, LossRows rows,
                                     const char* result) {
  expect_counts(op, 4, 1);
  const LossShape s = rows(op, dtype);
  expect_input(op, 3, "dloss", dtype, {1});
  expect_output(op, 0, result, dtype, dims_of(op.input(0)));
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_LOSSES_H_
