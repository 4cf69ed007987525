// The sliding window of convolutions and poolings.
#ifndef BACKENDS_REFERENCE_WINDOW_H_
#define BACKENDS_REFERENCE_WINDOW_H_

#include <cstdint>

#include "backends/reference/check.h"

namespace backends::reference {

// All sizes in elements of the image.
struct Window {
  int64_t kernel_h, kernel_w;
  int64_t stride_h, stride_w;
  int64_t pad_top, pad_bottom, pad_left, pad_right;
  int64_t dilation_h, dilation_w;

  // Row of the image that window row `kh` of output row `p` looks at; may be outside.
  int64_t row(int64_t p, int64_t kh) const { return p * stride_h - pad_top + kh * dilation_h; }
  int64_t column(int64_t q, int64_t kw) const { return q * stride_w - pad_left + kw * dilation_w; }
};

// Attributes of a convolution whose weights have that kernel size.
Window convolution_window(const Operation& op, int64_t kernel_h, int64_t kernel_w);
// Attributes of a pooling.
Window pooling_window(const Operation& op);

// [N, P, Q, channels] for an image of dims [N,H,W,C]; fails if the window does not fit.
Dims window_output(const Operation& op, const Window& window, const Dims& image, int64_t channels);

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_WINDOW_H_
