// A convolution in the terms of cuDNN and MIOpen: dims are always in the order N,C,H,W (weights
// O,C/G,H,W), and strides in elements describe the memory. The number of groups follows from the
// channels of the image and of the weights.
#ifndef BACKENDS_GPU_CONVOLUTION_H_
#define BACKENDS_GPU_CONVOLUTION_H_

#include <array>
#include <cstdint>
#include <optional>

#include "backends/gpu/counted.h"
#include "rt/operations.h"
#include "rt/sdk/operation.h"

namespace backends::gpu {

using rt::sdk::Operation;

// A tensor of the operation: its input or output number `index`.
struct Tensor4 {
  std::array<int64_t, 4> dims{}, strides{};
  uint32_t index = 0;
  bool is_output = false;
};

// Which of the three operations a Convolution is.
enum class Direction { kForward, kBackwardData, kBackwardWeights };

// All sizes are in elements.
struct Convolution {
  rt_dtype dtype;
  Direction direction;
  Tensor4 image, weights, result;  // the tensor that `direction` computes is the output
  // Height and width.
  std::array<int64_t, 2> pad_before, pad_after, stride, dilation;

  // The library computes the first `fused` post-operations of kForward: y = conv + residual + bias.
  // Its ReLU turns NaN into 0, so a ReLU is not among them. `bias` and `residual` are inputs of the
  // operation; -1: none.
  int32_t bias = -1, residual = -1;
  uint32_t fused = 0;
};

// Describes the convolution with at most `most_fused` post-operations. Empty if the operation is no
// convolution, or if a tensor has no elements.
std::optional<Convolution> convolution_of(const Operation& op, uint32_t most_fused);

// Whether the libraries are asked: none of the three tensors has more elements than kMostCounted.
bool is_counted(const Convolution& c);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_CONVOLUTION_H_
