// The convolution with few taps: a thread reads its operands from memory.
#ifndef BACKENDS_GPU_CONVOLUTION_DIRECT_H_
#define BACKENDS_GPU_CONVOLUTION_DIRECT_H_

#include "backends/gpu/convolution_channels.h"

namespace backends::gpu {

// y = conv(x, w)
template <typename T, int N>
struct DirectForward {
  const T *x, *w;
  T* y;
  PostOps posts;
  ConvShape s;
  Channels result;
  Divisor of_group;
  DirectForward(const Launch& l, const PostOps& list, const ConvShape& shape)
      : x(l.input<T>(0)),
        w(l.input<T>(1)),
        y(l.output<T>(0)),
        posts(list),
        s(shape),
        result(s.n, s.p, s.q, s.o, N),
        of_group(s.og) {}

  GPU_DEVICE void operator()(int64_t i) const {
    const Channels::At at = result.at(i);
    const int32_t group = static_cast<int32_t>(of_group.quotient(at.channel));
    const int32_t top = at.pixel.middle * s.stride_h - s.pad_top;
    const int32_t left = at.pixel.inner * s.stride_w - s.pad_left;
    const int32_t taps = s.kh * s.kw * s.cg, channels = static_cast<int32_t>(s.c);
    const T* image = x + int64_t{at.pixel.outer} * s.h * s.w * s.c + group * s.cg;
    const T* weights = w + at.channel * taps;
    Compute<T> sums[N] = {};
    for (int32_t kh = 0; kh < s.kh; ++kh) {
      const int32_t row = top + kh * s.dilation_h;
      for (int32_t kw = 0; kw < s.kw; ++kw) {
        const int32_t column = left + kw * s.dilation_w;
        // Padding is multiplied, too, so that 0 times infinity is what it is elsewhere.
        const bool real = inside(row, s.h) && inside(column, s.w);
        const int32_t from = (row * s.w + column) * channels;
        for (int32_t c = 0; c < s.cg; ++c, ++weights) {
          const Compute<T> value = element_if(real, image, from + c);
          GPU_UNROLL
          for (int k = 0; k < N; ++k) sums[k] += value * static_cast<Compute<T>>(weights[k * taps]);
        }
      }
    }
    posts.apply<T, N>(Place{i * N, at.channel, s.o}, sums);
    store<N>(y + i * N, narrow<T, N>(sums));
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_CONVOLUTION_DIRECT_H_
