// The operands of convolutions as products (product.h); the batch of the product is the group.
#ifndef BACKENDS_GPU_CONVOLUTION_OPERANDS_H_
#define BACKENDS_GPU_CONVOLUTION_OPERANDS_H_

#include <type_traits>

#include "backends/gpu/convolution_shape.h"

namespace backends::gpu {

// The patches that a convolution multiplies with its weights: pixels of the result by taps. They
// are the left operand of the forward (kPixelLines), or the right operand of the gradient of the
// weights, where lines are taps. Padding is 0.
template <typename T, bool kPixelLines>
class Patches {
 public:
  using Line = std::conditional_t<kPixelLines, Pixel, Tap>;
  static constexpr bool along_k = kPixelLines;
  Patches(const T* x, const ConvShape& s)
      : x_(x),
        s_(s),
        channels_(static_cast<int32_t>(s.c)),
        image_(static_cast<int64_t>(s.h) * s.w * s.c),
        pixels_(s.n, s.p, s.q),
        taps_(s.kh, s.kw, s.cg) {}

  GPU_DEVICE Line line(int64_t group, int64_t i) const {
    Line line = of<kPixelLines>(i);
    line.offset += static_cast<int32_t>(group) * s_.cg;
    return line;
  }
  GPU_DEVICE auto term(int64_t k) const { return of<!kPixelLines>(k); }
  template <typename Term>
  GPU_DEVICE Compute<T> value(const Line& line, const Term& term, bool real) const {
    const bool in = inside(line.row + term.row, s_.h) && inside(line.column + term.column, s_.w);
    return element_if(real && in, x_, line.offset + term.offset);
  }

 private:
  template <bool kPixel>
  GPU_DEVICE auto of(int64_t number) const {
    if constexpr (kPixel) {
      const Places::Of at = pixels_.of(number);
      const int32_t row = at.middle * s_.stride_h - s_.pad_top;
      const int32_t column = at.inner * s_.stride_w - s_.pad_left;
      return Pixel{at.outer * image_ + (row * s_.w + column) * channels_, row, column};
    } else {
      const Places::Of at = taps_.of_small(static_cast<uint32_t>(number));
      const int32_t row = at.outer * s_.dilation_h, column = at.middle * s_.dilation_w;
      return Tap{(row * s_.w + column) * channels_ + at.inner, row, column};
    }
  }
  const T* x_;
  ConvShape s_;
  int32_t channels_;
  int64_t image_;  // elements
  Places pixels_, taps_;
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_CONVOLUTION_OPERANDS_H_
