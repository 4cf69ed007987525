// Kernels of convolutions in which each thread computes a few neighbouring channels of a pixel.
#ifndef BACKENDS_GPU_CONVOLUTION_CHANNELS_H_
#define BACKENDS_GPU_CONVOLUTION_CHANNELS_H_

#include "backends/gpu/convolution_shape.h"
#include "backends/gpu/post_ops.h"
#include "backends/gpu/rows.h"

namespace backends::gpu {

// Queues one kernel that computes each vector i of N of the `count` results by Function<T, N>(l,
// posts, arguments...)(i). N is 4 or, if a vector would leave its group of `of_group` channels or
// an address is not aligned, 1.
template <typename T, template <typename, int> typename Function, typename... Arguments>
void for_channels(const Launch& l, int64_t count, int64_t of_group, const char* name,
                  const PostOps& posts, const Arguments&... arguments) {
  constexpr int N = 4;
  if (of_group % N == 0 && aligned(posts) && aligned({l.inputs[0], l.outputs[0]})) {
    for_each(l, count / N, Function<T, N>(l, posts, arguments...), name);
  } else {
    for_each(l, count, Function<T, 1>(l, posts, arguments...), name);
  }
}

// The pixel and the first channel of vector i of a tensor [N, height, width, channels].
class Channels {
 public:
  Channels(int64_t n, int64_t height, int64_t width, int64_t channels, int each)
      : pixels_(n, height, width), vectors_(channels / each), each_(each) {}
  struct At {
    Places::Of pixel;
    int64_t channel;
  };
  GPU_DEVICE At at(int64_t i) const {
    const int64_t pixel = vectors_.quotient(i);
    return {pixels_.of(pixel), (i - pixel * vectors_.value()) * each_};
  }

 private:
  Places pixels_;
  Divisor vectors_;
  int each_;
};

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_CONVOLUTION_CHANNELS_H_
