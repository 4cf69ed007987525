// A convolution in the words of cuDNN and MIOpen: dims always in the order N,C,H,W (weights
// O,C/G,H,W), strides in elements say how the tensor lies; groups are how often the weights'
// channels fit the image's.
#ifndef BACKENDS_GPU_CONVOLUTION_H_
#define BACKENDS_GPU_CONVOLUTION_H_

#include <array>
#include <cstdint>
#include <optional>

#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace backends::gpu {

using rt::sdk::Operation;

// A tensor of the operation: input `index`, or output `index`.
struct Tensor4 {
  std::array<int64_t, 4> dims{}, strides{};
  uint32_t index = 0;
  bool is_output = false;
};

enum class Direction { kForward, kBackwardData, kBackwardWeights };

struct Convolution {
  rt_dtype dtype;
  Direction direction;
  Tensor4 image, weights, result;  // the one that `direction` makes is an output
  // Height, width.
  std::array<int64_t, 2> pad_before, pad_after, stride, dilation;

  // Post-operations of kForward that are in the graph, from the first: y = relu(conv + residual +
  // bias). Inputs of the operation; -1: none.
  int32_t bias = -1, residual = -1;
  bool relu = false;
  uint32_t fused = 0;
};

// With at most `most_fused` post-operations. None: not a convolution, or one without elements.
std::optional<Convolution> convolution_of(const Operation& op, uint32_t most_fused);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_CONVOLUTION_H_
