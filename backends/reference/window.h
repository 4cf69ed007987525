// The sliding window of convolutions and poolings.
#ifndef BACKENDS_REFERENCE_WINDOW_H_
#define BACKENDS_REFERENCE_WINDOW_H_

#include <cstdint>

#include "backends/reference/check.h"

namespace backends::reference {

// All sizes are in pixels.
struct Window {
  int64_t kernel_h, kernel_w;
  int64_t stride_h, stride_w;
  int64_t pad_top, pad_bottom, pad_left, pad_right;
  int64_t dilation_h, dilation_w;

  // The row of the image that row `kh` of the window reads for output row `p`, and the column
  // likewise. Both may be outside the image.
  int64_t row(int64_t p, int64_t kh) const { return p * stride_h - pad_top + kh * dilation_h; }
  int64_t column(int64_t q, int64_t kw) const { return q * stride_w - pad_left + kw * dilation_w; }
};

// Reads the attributes of a convolution whose weights have that kernel size. Throws the errors of
// check.h.
Window convolution_window(const Operation& op, int64_t kernel_h, int64_t kernel_w);
// Reads the attributes of a pooling. Throws the errors of check.h.
Window pooling_window(const Operation& op);

// The dims [N, P, Q, channels] of the result for an image of dims [N,H,W,C]. Fails if the window
// does not fit.
Dims window_output(const Operation& op, const Window& window, const Dims& image, int64_t channels);

}  // namespace backends::reference

#endif  // BACKENDS_REFERENCE_WINDOW_H_
