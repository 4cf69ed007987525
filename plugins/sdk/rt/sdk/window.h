// The sliding window of convolutions and poolings.
#ifndef RT_SDK_WINDOW_H_
#define RT_SDK_WINDOW_H_

#include <cstdint>

#include "rt/sdk/expect.h"

namespace rt::sdk {

// The window that a convolution or a pooling moves over an image. All sizes are in pixels.
struct Window {
  int64_t kernel_h, kernel_w;                        // its height and width
  int64_t stride_h, stride_w;                        // from one window to the next
  int64_t pad_top, pad_bottom, pad_left, pad_right;  // around the image
  int64_t dilation_h, dilation_w;                    // from one row or column of it to the next

  // Returns the row of the image that row `kh` of the window reads for output row `p`; it may be
  // outside of the image.
  int64_t row(int64_t p, int64_t kh) const { return p * stride_h - pad_top + kh * dilation_h; }
  // The same for columns.
  int64_t column(int64_t q, int64_t kw) const { return q * stride_w - pad_left + kw * dilation_w; }
};

// Reads stride and padding. All functions of this header throw the errors of rt/sdk/expect.h.
inline Window read_window(const Operation& op, int64_t kernel_h, int64_t kernel_w) {
  Window w{};
  w.kernel_h = kernel_h;
  w.kernel_w = kernel_w;
  w.stride_h = integer_at_least(op, RT_ATTR_STRIDE_H, 1, 1);
  w.stride_w = integer_at_least(op, RT_ATTR_STRIDE_W, 1, 1);
  w.pad_top = integer_at_least(op, RT_ATTR_PAD_TOP, 0, 0);
  w.pad_bottom = integer_at_least(op, RT_ATTR_PAD_BOTTOM, 0, 0);
  w.pad_left = integer_at_least(op, RT_ATTR_PAD_LEFT, 0, 0);
  w.pad_right = integer_at_least(op, RT_ATTR_PAD_RIGHT, 0, 0);
  w.dilation_h = w.dilation_w = 1;
  return w;
}

// Reads the attributes of a convolution whose weights have that kernel size.
inline Window convolution_window(const Operation& op, int64_t kernel_h, int64_t kernel_w) {
  if (kernel_h < 1 || kernel_w < 1) op.fail("operand w has an empty kernel, expected at least 1x1");
  Window w = read_window(op, kernel_h, kernel_w);
  w.dilation_h = integer_at_least(op, RT_ATTR_DILATION_H, 1, 1);
  w.dilation_w = integer_at_least(op, RT_ATTR_DILATION_W, 1, 1);
  return w;
}

// Throws unless `padding`, the attribute `name`, is less than the size of the kernel.
inline void expect_padding_below(const Operation& op, const char* name, int64_t padding,
                                 int64_t kernel) {
  if (padding < kernel) return;
  op.fail(
      format("%s is %lld, expected less than the kernel's %lld, so that no window is all "
             "padding",
             name, static_cast<long long>(padding), static_cast<long long>(kernel)));
}

// Reads the attributes of a pooling.
inline Window pooling_window(const Operation& op) {
  op.integer(RT_ATTR_KERNEL_H);
  op.integer(RT_ATTR_KERNEL_W);
  const Window w = read_window(op, integer_at_least(op, RT_ATTR_KERNEL_H, 1, 1),
                               integer_at_least(op, RT_ATTR_KERNEL_W, 1, 1));
  expect_padding_below(op, RT_ATTR_PAD_TOP, w.pad_top, w.kernel_h);
  expect_padding_below(op, RT_ATTR_PAD_BOTTOM, w.pad_bottom, w.kernel_h);
  expect_padding_below(op, RT_ATTR_PAD_LEFT, w.pad_left, w.kernel_w);
  expect_padding_below(op, RT_ATTR_PAD_RIGHT, w.pad_right, w.kernel_w);
  return w;
}

// (size + padding - dilation (kernel-1) - 1) / stride + 1, rounded down.
inline int64_t window_output_size(const Operation& op, const char* axis, int64_t size,
                                  int64_t padding, int64_t kernel, int64_t dilation,
                                  int64_t stride) {
  const int64_t extent = dilation * (kernel - 1) + 1;
  if (extent > size + padding) {
    op.fail(format("the window covers %lld along %s, but the padded image has %lld",
                   static_cast<long long>(extent), axis, static_cast<long long>(size + padding)));
  }
  return (size + padding - extent) / stride + 1;
}

// The dims [N, P, Q, channels] of the result for an image of dims [N,H,W,C]. Fails if the window
// does not fit.
inline Dims window_output(const Operation& op, const Window& w, const Dims& image,
                          int64_t channels) {
  const int64_t p = window_output_size(op, "height", image[1], w.pad_top + w.pad_bottom, w.kernel_h,
                                       w.dilation_h, w.stride_h);
  const int64_t q = window_output_size(op, "width", image[2], w.pad_left + w.pad_right, w.kernel_w,
                                       w.dilation_w, w.stride_w);
  return {image[0], p, q, channels};
}

}  // namespace rt::sdk

#endif  // RT_SDK_WINDOW_H_
