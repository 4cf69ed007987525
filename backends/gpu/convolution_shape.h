// The sizes of a convolution, and where its elements are. Images are [N, height, width, channels]
// and weights [O, KH, KW, C / groups].
#ifndef BACKENDS_GPU_CONVOLUTION_SHAPE_H_
#define BACKENDS_GPU_CONVOLUTION_SHAPE_H_

#include "backends/gpu/device_code.h"
#include "backends/gpu/divisor.h"

namespace backends::gpu {

// The weights have fewer than 2^31 elements, and so has an image where the kernels count them with
// 32 bits; the whole batch may have more.
struct ConvShape {
  int64_t n, o, c;  // images, and the channels of the result and of the image
  int64_t groups;
  int32_t cg, og, kh, kw;  // channels of one group, rows and columns of the weights
  int32_t h, w, p, q;      // rows and columns of the image and of the result
  int32_t padded_h, padded_w;
  int32_t stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w;
  GPU_BOTH int64_t taps() const { return int64_t{kh} * kw; }
};

// The place [outer][middle][inner] of a number: the tap (kh, kw) and the channel of a number in
// [KH][KW][channels], or the image and the pixel of one in [N][height][width].
class Places {
 public:
  Places(int64_t outer, int64_t middle, int64_t inner)
      : middle_(middle), inner_(inner), small_(outer * middle * inner < kMostSmall) {}
  struct Of {
    int32_t outer, middle, inner;
  };
  GPU_DEVICE Of of(int64_t number) const {
    if (small_) return of_small(static_cast<uint32_t>(number));
    const int64_t line = inner_.quotient(number), outer = middle_.quotient(line);
    return {static_cast<int32_t>(outer), static_cast<int32_t>(line - outer * middle_.value()),
            static_cast<int32_t>(number - line * inner_.value())};
  }
  // For a number that is known to be below 2^31.
  GPU_DEVICE Of of_small(uint32_t number) const {
    const uint32_t line = inner_.small_quotient(number), outer = middle_.small_quotient(line);
    return {static_cast<int32_t>(outer),
            static_cast<int32_t>(line - outer * static_cast<uint32_t>(middle_.value())),
            static_cast<int32_t>(number - line * static_cast<uint32_t>(inner_.value()))};
  }

 private:
  static constexpr int64_t kMostSmall = int64_t{1} << 31;
  Divisor middle_, inner_;
  bool small_;  // as nearly all are: 32 bits are enough
};

GPU_DEVICE bool inside(int32_t at, int32_t size) {
  return static_cast<uint32_t>(at) < static_cast<uint32_t>(size);
}

// The number of the window that begins at `at`; -1: there is none among `count`.
GPU_DEVICE int32_t window_of(int32_t at, const Divisor& stride, int32_t count) {
  if (at < 0) return -1;
  const auto number = static_cast<int32_t>(stride.small_quotient(static_cast<uint32_t>(at)));
  return number * static_cast<int32_t>(stride.value()) == at && number < count ? number : -1;
}

// A pixel or a tap: its distance in memory, and its row and column. A pixel and a tap together are
// an element of the other tensor.
struct Pixel {
  int64_t offset;
  int32_t row, column;
};
struct Tap {
  int32_t offset, row, column;
};

// The element at `offset`, or 0 if there is none. A load under one condition needs no branch.
template <typename T>
GPU_DEVICE Compute<T> element_if(bool real, const T* from, int64_t offset) {
  return real ? static_cast<Compute<T>>(from[offset]) : Compute<T>(0);
}

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_CONVOLUTION_SHAPE_H_
