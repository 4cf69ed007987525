// Isolated operations that the tests in this folder share.
#ifndef TESTS_TOOLS_VERIFY_OPERATIONS_H_
#define TESTS_TOOLS_VERIFY_OPERATIONS_H_

#include <random>

#include "rt/operations.h"
#include "runtime/exec/encode.h"
#include "runtime/exec/layout_copy.h"
#include "tools/verify/isolated.h"

namespace runtime::test {

using verify::dims_of;
using verify::IsolatedOperation;

using plugins::host::make_tensor_desc;

inline data::HostTensor random_tensor(const rt_tensor_desc& tensor, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> numbers(exec::canonical_bytes(tensor) / (tensor.dtype == RT_FLOAT64   ? 8
                                                               : tensor.dtype == RT_FLOAT32 ? 4
                                                                                            : 2));
  for (double& number : numbers) number = uniform(random);
  return {tensor.dtype, dims_of(tensor), exec::encode(numbers, tensor.dtype)};
}

inline IsolatedOperation with_random_inputs(plugins::host::Operation operation) {
  IsolatedOperation isolated;
  uint32_t seed = 1;
  for (const rt_tensor_desc& tensor : operation.inputs)
    isolated.inputs.push_back(random_tensor(tensor, seed++));
  isolated.operation = std::move(operation);
  return isolated;
}

// relu(conv2d(x, w) + bias), with x [rows,8,8,16] and w [16,3,3,16].
inline IsolatedOperation convolution(int64_t rows, rt_dtype dtype = RT_FLOAT32) {
  plugins::host::Operation op;
  op.name = RT_OP_CONV2D;
  op.inputs = {make_tensor_desc(dtype, {rows, 8, 8, 16}), make_tensor_desc(dtype, {16, 3, 3, 16}),
               make_tensor_desc(dtype, {16})};
  op.outputs = {make_tensor_desc(dtype, {rows, 6, 6, 16})};
  op.post_ops = {{RT_POST_BIAS, 0, 2}, {RT_POST_ACTIVATION, RT_ACTIVATION_RELU, -1}};
  return with_random_inputs(std::move(op));
}

// The gradient of a 2x2 max pooling of [rows,4,4,3], and its forward operation.
inline IsolatedOperation pooling_gradient(int64_t rows) {
  plugins::host::Operation forward;
  forward.name = RT_OP_MAX_POOL2D;
  forward.attributes = {{RT_ATTR_KERNEL_H, int64_t{2}},
                        {RT_ATTR_KERNEL_W, int64_t{2}},
                        {RT_ATTR_STRIDE_H, int64_t{2}},
                        {RT_ATTR_STRIDE_W, int64_t{2}}};
  forward.inputs = {make_tensor_desc(RT_FLOAT32, {rows, 4, 4, 3})};
  forward.outputs = {make_tensor_desc(RT_FLOAT32, {rows, 2, 2, 3})};
  plugins::host::Operation backward = forward;
  backward.name = RT_OP_MAX_POOL2D_BACKWARD;
  std::swap(backward.inputs, backward.outputs);
  IsolatedOperation isolated = with_random_inputs(backward);
  isolated.forward_inputs = with_random_inputs(forward).inputs;
  isolated.forward = std::move(forward);
  return isolated;
}

// The product of [1,n] and [n,1].
inline IsolatedOperation dot_product(const std::vector<double>& a, const std::vector<double>& b,
                                     rt_dtype dtype = RT_FLOAT32) {
  const auto n = static_cast<int64_t>(a.size());
  plugins::host::Operation op;
  op.name = RT_OP_MATMUL;
  op.inputs = {make_tensor_desc(dtype, {1, n}), make_tensor_desc(dtype, {n, 1})};
  op.outputs = {make_tensor_desc(dtype, {1, 1})};
  return {op, {{dtype, {1, n}, exec::encode(a, dtype)}, {dtype, {n, 1}, exec::encode(b, dtype)}}};
}

}  // namespace runtime::test

#endif  // TESTS_TOOLS_VERIFY_OPERATIONS_H_
