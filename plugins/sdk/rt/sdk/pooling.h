// The sizes of poolings and their gradients.
#ifndef RT_SDK_POOLING_H_
#define RT_SDK_POOLING_H_

#include "rt/sdk/window.h"

namespace rt::sdk {

// x [N,H,W,C], y [N,P,Q,C].
struct PoolingShape {
  Window window;             // kernel, strides, padding
  int64_t n, h, w, c, p, q;  // as in x and y
  bool count_include_pad;    // only avg_pool2d has this attribute
  // Return the elements of one image and of one result.
  int64_t image() const { return h * w * c; }
  int64_t result() const { return p * q * c; }
};

// Reads the sizes for an image x [N,H,W,C]. Throws the errors of rt/sdk/expect.h.
inline PoolingShape pooling_shape(const Operation& op, const rt_tensor_desc& x) {
  PoolingShape s{};
  s.window = pooling_window(op);
  s.n = x.dims[0], s.h = x.dims[1], s.w = x.dims[2], s.c = x.dims[3];
  const Dims y = window_output(op, s.window, dims_of(x), s.c);
  s.p = y[1], s.q = y[2];
  s.count_include_pad = op.integer(RT_ATTR_COUNT_INCLUDE_PAD, 1) != 0;
  return s;
}

// Reads and checks the operands x -> y, which have the type `dtype`.
inline PoolingShape pooling_forward_shape(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 1, 1);
  const PoolingShape s = pooling_shape(op, input_of_rank(op, 0, "x", 4));
  expect_output(op, 0, "y", dtype, {s.n, s.p, s.q, s.c});
  return s;
}
// The same for dy -> dx.
inline PoolingShape pooling_backward_shape(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 1, 1);
  const rt_tensor_desc& dx = output_of_rank(op, 0, "dx", 4);
  const PoolingShape s = pooling_shape(op, dx);
  expect_input(op, 0, "dy", dtype, {s.n, s.p, s.q, s.c});
  expect_output(op, 0, "dx", dtype, dims_of(dx));
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_POOLING_H_
