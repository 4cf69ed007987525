// Translates a convolution and the post-operations that a library may fuse into strides and dims.
#include "backends/gpu/convolution.h"

#include <algorithm>

namespace backends::gpu {
namespace {

// Describes a tensor [N,H,W,C]. Weights [O,KH,KW,C/G] have the same form.
Tensor4 channels_last(const rt_tensor_desc& t, uint32_t index, bool is_output) {
  const int64_t h = t.dims[1], w = t.dims[2], c = t.dims[3];
  return {{t.dims[0], c, h, w}, {h * w * c, 1, w * c, c}, index, is_output};
}

std::optional<Direction> direction_of(const Operation& op) {
  if (op.is(RT_OP_CONV2D)) return Direction::kForward;
  if (op.is(RT_OP_CONV2D_BACKWARD_DATA)) return Direction::kBackwardData;
  if (op.is(RT_OP_CONV2D_BACKWARD_WEIGHTS)) return Direction::kBackwardWeights;
  return std::nullopt;
}

void place(Convolution& c, const Operation& op) {
  const auto input = [&](uint32_t i) { return channels_last(op.input(i), i, false); };
  const Tensor4 output = channels_last(op.output(0), 0, true);
  switch (c.direction) {
    case Direction::kForward:
      c.image = input(0), c.weights = input(1), c.result = output;
      break;
    case Direction::kBackwardData:
      c.image = output, c.weights = input(1), c.result = input(0);
      break;
    case Direction::kBackwardWeights:
      c.image = input(0), c.weights = output, c.result = input(1);
  }
}

bool take(Convolution& c, const rt_post_op& post) {
  if (c.direction != Direction::kForward) return false;
  if (post.kind == RT_POST_BIAS && c.bias < 0) {
    c.bias = post.operand;
    return true;
  }
  if (post.kind == RT_POST_RESIDUAL_ADD && c.residual < 0) {
    c.residual = post.operand;
    return true;
  }
  return false;
}

int64_t elements_of(const Tensor4& t) { return t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]; }

bool is_empty(const Tensor4& t) {
  return std::any_of(t.dims.begin(), t.dims.end(), [](int64_t n) { return n == 0; });
}

}  // namespace

std::optional<Convolution> convolution_of(const Operation& op, uint32_t most_fused) {
  const auto direction = direction_of(op);
  if (!direction) return std::nullopt;
  Convolution c{};
  c.direction = *direction;
  c.dtype = op.input(0).dtype;
  place(c, op);
  if (is_empty(c.image) || is_empty(c.weights) || is_empty(c.result)) return std::nullopt;
  c.pad_before = {op.integer(RT_ATTR_PAD_TOP, 0), op.integer(RT_ATTR_PAD_LEFT, 0)};
  c.pad_after = {op.integer(RT_ATTR_PAD_BOTTOM, 0), op.integer(RT_ATTR_PAD_RIGHT, 0)};
  c.stride = {op.integer(RT_ATTR_STRIDE_H, 1), op.integer(RT_ATTR_STRIDE_W, 1)};
  c.dilation = {op.integer(RT_ATTR_DILATION_H, 1), op.integer(RT_ATTR_DILATION_W, 1)};
  const uint32_t most = std::min(most_fused, op.post_op_count());
  while (c.fused < most && take(c, op.post_op(c.fused))) ++c.fused;
  return c;
}

bool is_counted(const Convolution& c) {
  return std::max({elements_of(c.image), elements_of(c.weights), elements_of(c.result)}) <=
         kMostCounted;
}

}  // namespace backends::gpu
