// The sliding window of convolutions and poolings, read from the attributes and checked against the
// shapes.
#ifndef BACKENDS_CPU_WINDOW_H_
#define BACKENDS_CPU_WINDOW_H_

#include "rt/sdk/operation.h"

namespace backends::cpu {

// Sizes in pixels.
struct Window {
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1;
  int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  int64_t dilation_h = 1, dilation_w = 1;
};

// Reads the window of a convolution: x [N,H,W,C], w [O,KH,KW,C/G], y [N,P,Q,O]. Throws
// RT_ERROR_INVALID_ARGUMENT if the shapes do not fit.
Window convolution_window(const rt::sdk::Operation& op, const rt_tensor_desc& x,
                          const rt_tensor_desc& w, const rt_tensor_desc& y);
// Reads the window of a pooling: x [N,H,W,C], y [N,P,Q,C]; the kernel comes from the attributes.
// Throws RT_ERROR_INVALID_ARGUMENT if the shapes do not fit.
Window pooling_window(const rt::sdk::Operation& op, const rt_tensor_desc& x,
                      const rt_tensor_desc& y);

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_WINDOW_H_
