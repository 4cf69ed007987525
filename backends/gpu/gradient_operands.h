// The operands of the gradient of a convolution's image as a product (product.h); the batch of the
// product is the group.
#ifndef BACKENDS_GPU_GRADIENT_OPERANDS_H_
#define BACKENDS_GPU_GRADIENT_OPERANDS_H_

#include "backends/gpu/convolution_shape.h"

namespace backends::gpu {

// The left operand of the gradient of the image: pixels of the image by taps, of which each has the
// channels of the result.
template <typename T, bool kStrided>
class GradientPatches {
 public:
  using Line = Pixel;
  static constexpr bool along_k = true;
  GradientPatches(const T* dy, const ConvShape& s)
      : dy_(dy),
        s_(s),
        channels_(static_cast<int32_t>(s.o)),
        image_(static_cast<int64_t>(s.p) * s.q * s.o),
        pixels_(s.n, s.h, s.w),
        taps_(s.kh, s.kw, s.og),
        rows_(s.stride_h),
        columns_(s.stride_w) {}

  // Without strides, offsets are distances in dy. With strides, only the offsets of the image and
  // of the channel are.
  GPU_DEVICE Pixel line(int64_t group, int64_t i) const {
    const Places::Of at = pixels_.of(i);
    const int32_t row = at.middle + s_.pad_top, column = at.inner + s_.pad_left;
    const int32_t offset = static_cast<int32_t>(group) * s_.og;
    return {at.outer * image_ + offset + (kStrided ? 0 : pixel(row, column)), row, column};
  }
  GPU_DEVICE Tap term(int64_t k) const {
    const Places::Of at = taps_.of_small(static_cast<uint32_t>(k));
    const int32_t row = at.outer * s_.dilation_h, column = at.middle * s_.dilation_w;
    return {at.inner - (kStrided ? 0 : pixel(row, column)), row, column};
  }
  GPU_DEVICE Compute<T> value(const Pixel& line, const Tap& term, bool real) const {
    int32_t row = line.row - term.row, column = line.column - term.column;
    int64_t at = line.offset + term.offset;
    if constexpr (kStrided) {
      row = window_of(row, rows_, s_.p);
      column = window_of(column, columns_, s_.q);
    }
    real = real && inside(row, s_.p) && inside(column, s_.q);
    if (kStrided && real) at += pixel(row, column);
    return element_if(real, dy_, at);
  }

 private:
  GPU_DEVICE int32_t pixel(int32_t row, int32_t column) const {
    return (row * s_.q + column) * channels_;
  }
  const T* dy_;
  ConvShape s_;
  int32_t channels_;
  int64_t image_;  // elements
  Places pixels_, taps_;
  Divisor rows_, columns_;
};

// The weights of one group as the right operand of the gradient of the image; k counts taps and
// output channels, a column is an input channel.
template <typename T>
class WeightsForData {
 public:
  using Line = int32_t;
  static constexpr bool along_k = false;
  WeightsForData(const T* w, const ConvShape& s)
      : w_(w), s_(s), each_(s.kh * s.kw * s.cg), group_(s.og * each_), taps_(s.kh, s.kw, s.og) {}

  GPU_DEVICE int32_t line(int64_t group, int64_t j) const {
    return static_cast<int32_t>(group) * group_ + static_cast<int32_t>(j);
  }
  GPU_DEVICE int32_t term(int64_t k) const {
    const Places::Of at = taps_.of_small(static_cast<uint32_t>(k));
    return at.inner * each_ + (at.outer * s_.kw + at.middle) * s_.cg;
  }
  GPU_DEVICE Compute<T> value(int32_t line, int32_t term, bool real) const {
    return element_if(real, w_, line + term);
  }

 private:
  const T* w_;
  ConvShape s_;
  int32_t each_, group_;  // weights of an output channel and of a group
  Places taps_;
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_GRADIENT_OPERANDS_H_
