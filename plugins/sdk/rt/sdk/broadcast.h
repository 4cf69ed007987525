// Broadcasting as in numpy: dims are compared from the last one on, and a dim of 1 is repeated.
#ifndef RT_SDK_BROADCAST_H_
#define RT_SDK_BROADCAST_H_

#include "rt/sdk/expect.h"

namespace rt::sdk {

// The strides, in elements, with which input i is read when it is broadcast to the dims `result`; 0
// for a dimension that repeats. Throws the errors of rt/sdk/expect.h.
inline Dims broadcast_strides(const Operation& op, uint32_t i, const char* name,
                              const Dims& result) {
  const Dims operand = dims_of(op.input(i));
  const auto fail = [&] {
    op.fail(
        format("operand %u (%s) has dims %s, which do not broadcast to the result's "
               "%s: each dimension, counted from the last, must be equal or 1",
               i, name, to_string(operand).c_str(), to_string(result).c_str()));
  };
  if (operand.size() > result.size()) fail();
  Dims strides(result.size(), 0);
  const Dims own = strides_of(operand);
  const size_t shift = result.size() - operand.size();
  for (size_t d = 0; d < operand.size(); ++d) {
    if (operand[d] != 1 && operand[d] != result[shift + d]) fail();
    strides[shift + d] = operand[d] == 1 ? 0 : own[d];
  }
  return strides;
}

// A result of dims c and the strides with which it reads its operands a and b.
struct BroadcastShape {
  Dims dims, a, b;    // the dims of c; the strides of a and b, in elements
  uint32_t in_place;  // bit i: input i has the dims of the result
};

// Reads a, b -> c, which all have the type `dtype`. Throws the errors of rt/sdk/expect.h.
inline BroadcastShape broadcast_shape(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 2, 1);
  expect_input(op, 1, "b", dtype, dims_of(op.input(1)));
  BroadcastShape s{};
  s.dims = dims_of(op.output(0));
  expect_output(op, 0, "c", dtype, s.dims);
  s.a = broadcast_strides(op, 0, "a", s.dims);
  s.b = broadcast_strides(op, 1, "b", s.dims);
  for (uint32_t i = 0; i < 2; ++i) s.in_place |= same_dims(op.input(i), op.output(0)) ? 1u << i : 0;
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_BROADCAST_H_
