// The sizes of conv2d_pool2d and its gradient.
#ifndef RT_SDK_CONV_POOL_H_
#define RT_SDK_CONV_POOL_H_

#include "rt/sdk/convolution.h"

namespace rt::sdk {

// x [N,H,W,C], w [O,KH,KW,C/G], b [O], y [N,rows,columns,O]. The result of the convolution, which
// the pooling reads, is [N,P,Q,O]. Those of its rows and columns that fill no window, the last
// ones, have no part in y.
struct ConvPoolShape {
  ConvolutionShape convolution;  // the sizes of x, w and [N,P,Q,O]
  int64_t kernel_h, kernel_w;    // of the pooling, and its strides
  int64_t rows, columns;         // of y
  bool average;                  // else the maximum
  int32_t function;              // RT_ACTIVATION_*, or 0
  // Returns the dims of y.
  Dims result() const { return {convolution.n, rows, columns, convolution.o}; }
};

// Reads the sizes from the descriptions of x and w. All functions of this header throw the errors
// of rt/sdk/expect.h.
inline ConvPoolShape conv_pool_shape(const Operation& op, const rt_tensor_desc& x,
                                     const rt_tensor_desc& w) {
  ConvPoolShape s{};
  s.convolution = convolution_shape(op, x, w);
  op.integer(RT_ATTR_KERNEL_H);  // these two throw if the attribute is missing
  op.integer(RT_ATTR_KERNEL_W);
  s.kernel_h = integer_at_least(op, RT_ATTR_KERNEL_H, 1, 1);
  s.kernel_w = integer_at_least(op, RT_ATTR_KERNEL_W, 1, 1);
  s.rows = window_output_size(op, "the convolution's height", s.convolution.p, 0, s.kernel_h, 1,
                              s.kernel_h);
  s.columns = window_output_size(op, "the convolution's width", s.convolution.q, 0, s.kernel_w, 1,
                                 s.kernel_w);
  const int64_t average = op.integer(RT_ATTR_AVERAGE);
  if (average != 0 && average != 1) {
    op.fail(format("average is %lld, expected 0 (maximum) or 1 (mean)",
                   static_cast<long long>(average)));
  }
  s.average = average == 1;
  const int64_t function = op.integer(RT_ATTR_FUNCTION, 0);
  if (function < 0 || function > RT_ACTIVATION_SIGMOID) {
    op.fail(format("function is %lld, expected 0 (none) to %d (sigmoid)",
                   static_cast<long long>(function), RT_ACTIVATION_SIGMOID));
  }
  s.function = static_cast<int32_t>(function);
  return s;
}

// Reads and checks the operands x, w, b -> y, which all have the type `dtype`.
inline ConvPoolShape conv2d_pool2d_shape(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 3, 1);
  const ConvPoolShape s =
      conv_pool_shape(op, input_of_rank(op, 0, "x", 4), input_of_rank(op, 1, "w", 4));
  expect_input(op, 1, "w", dtype, s.convolution.weights());
  expect_input(op, 2, "b", dtype, {s.convolution.o});
  expect_output(op, 0, "y", dtype, s.result());
  return s;
}
// The same for x, dy -> dw, db.
inline ConvPoolShape conv2d_pool2d_backward_weights_shape(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 2, 2);
  const ConvPoolShape s =
      conv_pool_shape(op, input_of_rank(op, 0, "x", 4), output_of_rank(op, 0, "dw", 4));
  expect_input(op, 1, "dy", dtype, s.result());
  expect_output(op, 0, "dw", dtype, s.convolution.weights());
  expect_output(op, 1, "db", dtype, {s.convolution.o});
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_CONV_POOL_H_
