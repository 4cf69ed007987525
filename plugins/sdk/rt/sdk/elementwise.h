// The sizes of operations on one tensor: activation and its gradient, scale, copy.
#ifndef RT_SDK_ELEMENTWISE_H_
#define RT_SDK_ELEMENTWISE_H_

#include "rt/sdk/expect.h"

namespace rt::sdk {

// Throws Error unless `function` is one that `activation` has.
inline void expect_activation(const Operation& op, int64_t function) {
  if (function >= RT_ACTIVATION_RELU && function <= RT_ACTIVATION_SIGMOID) return;
  if (is_forward_only(function)) return;
  op.fail(
      format("activation function is %lld, expected 1 (relu) to 9 (reciprocal) or 11 (sin) to "
             "13 (floor)",
             static_cast<long long>(function)));
}

// The same, and throws Refusal if only `activation` has the function.
inline void expect_differentiable(const Operation& op, int64_t function) {
  expect_activation(op, function);
  if (!is_forward_only(function)) return;
  refuse(op, format("function %lld is one of the operation activation alone; emit it there, and "
                    "its gradient as products",
                    static_cast<long long>(function)));
}

// Checks x -> y, which have the same dims and the type `dtype`, and returns how many elements they
// have. Throws the errors of rt/sdk/expect.h, as the functions below do.
inline int64_t unary_count(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 1, 1);
  expect_output(op, 0, "y", dtype, dims_of(op.input(0)));
  return element_count(op.input(0));
}

// An activation of `count` elements, one by one.
struct ActivationShape {
  int64_t count;     // of elements
  int64_t function;  // RT_ACTIVATION_*
};

// Reads x -> y of activation.
inline ActivationShape activation_shape(const Operation& op, rt_dtype dtype) {
  const ActivationShape s{unary_count(op, dtype), op.integer(RT_ATTR_FUNCTION)};
  expect_activation(op, s.function);
  return s;
}

// Reads dy, s -> dx of activation_backward.
inline ActivationShape activation_backward_shape(const Operation& op, rt_dtype dtype) {
  const Dims dims = dims_of(op.input(0));
  expect_counts(op, 2, 1);
  expect_input(op, 1, "s", dtype, dims);
  expect_output(op, 0, "dx", dtype, dims);
  const ActivationShape s{product(dims), op.integer(RT_ATTR_FUNCTION)};
  expect_differentiable(op, s.function);
  return s;
}

// Throws Error unless `function` is one of gated_activation.
inline void expect_gate(const Operation& op, int64_t function) {
  if (function == RT_ACTIVATION_SILU) return;
  if (function >= RT_ACTIVATION_RELU && function <= RT_ACTIVATION_SIGMOID) return;
  op.fail(format("activation function is %lld, expected 1 (relu) to 5 (sigmoid) or 10 (silu)",
                 static_cast<long long>(function)));
}

// Reads gate, up -> y of gated_activation.
inline ActivationShape gated_activation_shape(const Operation& op, rt_dtype dtype) {
  const Dims dims = dims_of(op.input(0));
  expect_counts(op, 2, 1);
  expect_input(op, 1, "up", dtype, dims);
  expect_output(op, 0, "y", dtype, dims);
  const ActivationShape s{product(dims), op.integer(RT_ATTR_FUNCTION)};
  expect_gate(op, s.function);
  return s;
}

// Reads dy, gate, up -> dgate, dup of gated_activation_backward.
inline ActivationShape gated_activation_backward_shape(const Operation& op, rt_dtype dtype) {
  const Dims dims = dims_of(op.input(0));
  expect_counts(op, 3, 2);
  expect_input(op, 1, "gate", dtype, dims);
  expect_input(op, 2, "up", dtype, dims);
  expect_output(op, 0, "dgate", dtype, dims);
  expect_output(op, 1, "dup", dtype, dims);
  const ActivationShape s{product(dims), op.integer(RT_ATTR_FUNCTION)};
  expect_gate(op, s.function);
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_ELEMENTWISE_H_
