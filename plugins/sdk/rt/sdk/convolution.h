// The sizes of conv2d and its two gradients.
#ifndef RT_SDK_CONVOLUTION_H_
#define RT_SDK_CONVOLUTION_H_

#include "rt/sdk/window.h"

namespace rt::sdk {

// x [N,H,W,C], w [O,KH,KW,C/G], y [N,P,Q,O].
struct ConvolutionShape {
  Window window;           // kernel, strides, padding, dilation
  int64_t n, h, w, c;      // image
  int64_t p, q, o;         // result
  int64_t groups, cg, og;  // G, and the channels of x and y in one group
  // Returns the pixels of one result.
  int64_t pixels() const { return p * q; }
  // Returns the elements of x that one pixel and one group of the result read.
  int64_t patch() const { return window.kernel_h * window.kernel_w * cg; }
  // Return the dims of x, w and y.
  Dims image() const { return {n, h, w, c}; }
  Dims weights() const { return {o, window.kernel_h, window.kernel_w, cg}; }
  Dims result() const { return {n, p, q, o}; }
};

// Reads the sizes from the descriptions of x and w, which the three operations have as different
// operands. Throws the errors of rt/sdk/expect.h.
inline ConvolutionShape convolution_shape(const Operation& op, const rt_tensor_desc& x,
                                          const rt_tensor_desc& w) {
  ConvolutionShape s{};
  s.n = x.dims[0], s.h = x.dims[1], s.w = x.dims[2], s.c = x.dims[3];
  s.o = w.dims[0], s.cg = w.dims[3];
  s.groups = integer_at_least(op, RT_ATTR_GROUPS, 1, 1);
  if (s.cg * s.groups != s.c || s.o % s.groups != 0) {
    op.fail(format(
        "weights are [O, KH, KW, C/groups] = %s with %lld groups and %lld image channels, expected "
        "%lld input channels for each group and O a multiple of the groups",
        to_string(dims_of(w)).c_str(), static_cast<long long>(s.groups),
        static_cast<long long>(s.c), static_cast<long long>(s.c / s.groups)));
  }
  s.og = s.o / s.groups;
  s.window = convolution_window(op, w.dims[1], w.dims[2]);
  const Dims y = window_output(op, s.window, dims_of(x), s.o);
  s.p = y[1], s.q = y[2];
  return s;
}

// Reads and checks the operands x, w -> y, which all have the type `dtype`.
inline ConvolutionShape conv2d_shape(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 2, 1);
  const ConvolutionShape s =
      convolution_shape(op, input_of_rank(op, 0, "x", 4), input_of_rank(op, 1, "w", 4));
  expect_input(op, 1, "w", dtype, s.weights());
  expect_output(op, 0, "y", dtype, s.result());
  return s;
}
// The same for dy, w -> dx.
inline ConvolutionShape conv2d_backward_data_shape(const Operation& op, rt_dtype dtype) {
  expect_counts(op, 2, 1);
  const ConvolutionShape s =
      convolution_shape(op, output_of_rank(op, 0, "dx", 4), input_of_rank(op, 1, "w", 4));
  expect_input(op, 0, "dy", dtype, s.result());
  expect_input(op, 1, "w", dtype, s.weights());
  expect_output(op, 0, "dx", dtype, s.image());
  return s;
}
// The same for x, dy -> dw and, if there are two outputs, db.
inline ConvolutionShape conv2d_backward_weights_shape(const Operation& op, rt_dtype dtype) {
  const bool with_bias = op.output_count() == 2;
  expect_counts(op, 2, with_bias ? 2 : 1);
  const ConvolutionShape s =
      convolution_shape(op, input_of_rank(op, 0, "x", 4), output_of_rank(op, 0, "dw", 4));
  expect_input(op, 1, "dy", dtype, s.result());
  expect_output(op, 0, "dw", dtype, s.weights());
  if (with_bias) expect_output(op, 1, "db", dtype, {s.o});
  return s;
}

}  // namespace rt::sdk

#endif  // RT_SDK_CONVOLUTION_H_
