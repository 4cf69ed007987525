// Reads strides, padding and dilation, and compares the output's size with what they give.
#include "backends/cpu/window.h"

#include "rt/operations.h"

namespace backends::cpu {
namespace {

using rt::sdk::format;
using rt::sdk::Operation;
using rt::sdk::to_string;

Window read_window(const Operation& op) {
  Window w;
  w.stride_h = op.integer(RT_ATTR_STRIDE_H, 1);
  w.stride_w = op.integer(RT_ATTR_STRIDE_W, 1);
  w.pad_top = op.integer(RT_ATTR_PAD_TOP, 0);
  w.pad_bottom = op.integer(RT_ATTR_PAD_BOTTOM, 0);
  w.pad_left = op.integer(RT_ATTR_PAD_LEFT, 0);
  w.pad_right = op.integer(RT_ATTR_PAD_RIGHT, 0);
  return w;
}

// Checks the parameters of one axis and that they give the output length of the description.
void check_axis(const Operation& op, const char* axis, int64_t input, int64_t output,
                int64_t kernel, int64_t stride, int64_t begin, int64_t end, int64_t dilation) {
  if (kernel < 1 || stride < 1 || dilation < 1 || begin < 0 || end < 0) {
    op.fail(
        format("%s axis: kernel %ld, stride %ld, dilation %ld must be at least 1, padding "
               "%ld, %ld at least 0",
               axis, kernel, stride, dilation, begin, end));
  }
  const int64_t room = input + begin + end - dilation * (kernel - 1) - 1;
  const int64_t expected = room < 0 ? 0 : room / stride + 1;
  if (expected != output || expected == 0) {
    op.fail(format("%s axis: input %ld gives output %ld, the description says %ld", axis, input,
                   expected, output));
  }
}

void check_window(const Operation& op, const Window& w, const rt_tensor_desc& x,
                  const rt_tensor_desc& y) {
  if (x.rank != 4 || y.rank != 4 || x.dims[0] != y.dims[0]) {
    op.fail("images must be [N,H,W,C] with the same N; given " + to_string(x) + " and " +
            to_string(y));
  }
  check_axis(op, "height", x.dims[1], y.dims[1], w.kernel_h, w.stride_h, w.pad_top, w.pad_bottom,
             w.dilation_h);
  check_axis(op, "width", x.dims[2], y.dims[2], w.kernel_w, w.stride_w, w.pad_left, w.pad_right,
             w.dilation_w);
}

}  // namespace

Window convolution_window(const Operation& op, const rt_tensor_desc& x, const rt_tensor_desc& w,
                          const rt_tensor_desc& y) {
  Window window = read_window(op);
  window.dilation_h = op.integer(RT_ATTR_DILATION_H, 1);
  window.dilation_w = op.integer(RT_ATTR_DILATION_W, 1);
  if (w.rank != 4) op.fail("weights must be [O,KH,KW,C/groups]; given " + to_string(w));
  window.kernel_h = w.dims[1];
  window.kernel_w = w.dims[2];
  check_window(op, window, x, y);
  const int64_t groups = op.integer(RT_ATTR_GROUPS, 1);
  if (groups < 1 || x.dims[3] != w.dims[3] * groups || y.dims[3] != w.dims[0] ||
      w.dims[0] % groups != 0) {
    op.fail(
        format("groups %ld", groups) + " do not fit x " + to_string(x) + ", weights " +
        to_string(w) + ", y " + to_string(y) +
        "; the channels of x are groups times the last dimension of the weights, those of y are "
        "its first, and both are multiples of groups");
  }
  return window;
}

Window pooling_window(const Operation& op, const rt_tensor_desc& x, const rt_tensor_desc& y) {
  Window window = read_window(op);
  window.kernel_h = op.integer(RT_ATTR_KERNEL_H);
  window.kernel_w = op.integer(RT_ATTR_KERNEL_W);
  check_window(op, window, x, y);
  if (x.dims[3] != y.dims[3])
    op.fail("x " + to_string(x) + " and y " + to_string(y) + " must have the same channels");
  if (window.pad_top >= window.kernel_h || window.pad_bottom >= window.kernel_h ||
      window.pad_left >= window.kernel_w || window.pad_right >= window.kernel_w) {
    op.fail("padding must be smaller than the kernel");
  }
  return window;
}

}  // namespace backends::cpu
