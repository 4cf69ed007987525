// The last part of the gradient of a convolution's image by way of a product.
#ifndef BACKENDS_GPU_FOLD_GRADIENT_H_
#define BACKENDS_GPU_FOLD_GRADIENT_H_

#include "backends/gpu/convolution_channels.h"

namespace backends::gpu {

// dx from products [groups][N P Q][taps of x] of the gradient dy and the weights, fewer than 2^31:
// each element adds up those that belong to it.
template <typename T, int N>
struct FoldGradient {
  using C = Compute<T>;
  const C* products;
  T* dx;
  PostOps posts;
  ConvShape s;
  Channels image;
  Divisor of_group, rows, columns;
  FoldGradient(const Launch& l, const PostOps& list, const ConvShape& shape, const C* from)
      : products(from),
        dx(l.output<T>(0)),
        posts(list),
        s(shape),
        image(s.n, s.h, s.w, s.c, N),
        of_group(s.cg),
        rows(s.stride_h),
        columns(s.stride_w) {}

  GPU_DEVICE void operator()(int64_t i) const {
    const Channels::At at = image.at(i);
    const auto channel = static_cast<int32_t>(at.channel);
    const int32_t group = static_cast<int32_t>(of_group.quotient(channel));
    const int32_t taps = s.kh * s.kw * s.cg, images = static_cast<int32_t>(s.n);
    const C* from =
        products + (group * images + at.pixel.outer) * s.p * s.q * taps + channel - group * s.cg;
    C sums[N] = {};
    for (int32_t kh = 0; kh < s.kh; ++kh) {
      const int32_t p = window_of(at.pixel.middle + s.pad_top - kh * s.dilation_h, rows, s.p);
      if (p < 0) continue;
      for (int32_t kw = 0; kw < s.kw; ++kw) {
        const int32_t q = window_of(at.pixel.inner + s.pad_left - kw * s.dilation_w, columns, s.q);
        if (q < 0) continue;
        const Pack<C, N> several = load<N>(from + (p * s.q + q) * taps + (kh * s.kw + kw) * s.cg);
        GPU_UNROLL
        for (int k = 0; k < N; ++k) sums[k] += several.value[k];
      }
    }
    posts.apply<T, N>(Place{i * N, at.channel, s.c}, sums);
    store<N>(dx + i * N, narrow<T, N>(sums));
  }
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_FOLD_GRADIENT_H_
