// Applies a chain of bias, activation and residual to a range of elements, with vector loops for
// the usual ones.
#include "backends/cpu/post_chain.h"

#include <algorithm>

#include "rt/operations.h"

namespace backends::cpu {
namespace {

bool needs_operand(int32_t kind) { return kind != RT_POST_ACTIVATION; }

bool has_function(int32_t kind) {
  return kind == RT_POST_ACTIVATION || kind == RT_POST_ACTIVATION_BACKWARD;
}

bool moves_zero(const rt_post_op& post) {
  return post.kind == RT_POST_ACTIVATION && post.function == RT_ACTIVATION_SIGMOID;
}

// Cuts elements offset .. offset + count where the block of channels changes, and calls body(first
// element counted from `offset`, number of elements, first channel of the block).
template <typename Body>
void for_blocks(const ChannelOrder& order, int64_t offset, int64_t count, Body&& body) {
  for (int64_t i = 0; i < count;) {
    const int64_t at = offset + i;
    const int64_t length = std::min(count - i, order.step - at % order.step);
    body(i, length, at / order.step % order.blocks * order.block);
    i += length;
  }
}

// Calls body(k, channel within the block) for k from 0 to count - 1; `lane` is the channel at k =
// 0.
template <typename Body>
void for_lanes(int64_t block, int64_t lane, int64_t count, Body&& body) {
  for (int64_t k = 0; k < count; ++k) {
    body(k, lane);
    lane = lane + 1 == block ? 0 : lane + 1;
  }
}

}  // namespace

void check_post_ops(const Operation& op) {
  for (uint32_t i = 0; i < op.post_op_count(); ++i) {
    const rt_post_op& post = op.post_op(i);
    if (post.kind < RT_POST_BIAS || post.kind > RT_POST_ACTIVATION_BACKWARD) {
      op.fail(rt::sdk::format("post-operation %u has kind %d; known are 1 to 4", i, post.kind));
    }
    if (has_function(post.kind) &&
        (post.function < RT_ACTIVATION_RELU || post.function > RT_ACTIVATION_SIGMOID)) {
      op.fail(
          rt::sdk::format("post-operation %u has function %d; known are 1 to 5", i, post.function));
    }
    if (!needs_operand(post.kind)) continue;
    if (post.operand < 0 || static_cast<uint32_t>(post.operand) >= op.input_count()) {
      op.fail(rt::sdk::format("post-operation %u names input %d; there are %u inputs", i,
                              post.operand, op.input_count()));
    }
    const rt_tensor_desc& operand = op.input(static_cast<uint32_t>(post.operand));
    const rt_tensor_desc& y = op.output(0);
    const bool fits = post.kind == RT_POST_BIAS
                          ? operand.rank == 1 && y.rank > 0 && operand.dims[0] == y.dims[y.rank - 1]
                          : rt::sdk::same_dims(operand, y);
    if (!fits || operand.dtype != y.dtype) {
      op.fail("operand of post-operation " + std::to_string(i) + " is " +
              rt::sdk::to_string(operand) + ", output 0 is " + rt::sdk::to_string(y) +
              "; expected " + (post.kind == RT_POST_BIAS ? "its last dimension" : "the same"));
    }
  }
}

uint32_t chain_prefix(const Operation& op, const std::optional<ChannelOrder>& order,
                      uint32_t done) {
  if (order) return op.post_op_count();
  uint32_t count = done;
  for (; count < op.post_op_count(); ++count) {
    const rt_post_op& post = op.post_op(count);
    if (post.kind == RT_POST_BIAS || moves_zero(post)) break;
  }
  return count;
}

bool commutes_with_rounding(const Operation& op, uint32_t begin) {
  for (uint32_t i = begin; i < op.post_op_count(); ++i) {
    if (!has_function(op.post_op(i).kind) || op.post_op(i).function != RT_ACTIVATION_RELU)
      return false;
  }
  return true;
}

void check_prefix(const Operation& op, uint32_t fused) {
  if (fused >= op.post_op_count()) return;
  throw rt::sdk::Error(
      RT_ERROR_UNSUPPORTED,
      rt::sdk::format("%s: %u post-operations asked for, %u can be fused; give only those",
                      op.desc().name, op.post_op_count(), fused));
}

PostChain::PostChain(const Operation& op, const std::optional<ChannelOrder>& order, uint32_t begin)
    : order_(order.value_or(ChannelOrder{})) {
  for (uint32_t i = begin; i < op.post_op_count(); ++i) {
    const rt_post_op& post = op.post_op(i);
    steps_.push_back({post.kind, post.function, post.operand});
    fills_padding_ = fills_padding_ || (order_.is_padded() && moves_zero(post));
  }
}

void PostChain::apply(const kernels::Table& kernel, float* y, int64_t offset, int64_t count,
                      const void* const* inputs) const {
  for (const Step& step : steps_) {
    const auto* operand =
        step.operand < 0 ? nullptr : static_cast<const float*>(inputs[step.operand]);
    switch (step.kind) {
      case RT_POST_BIAS:
        add_bias(kernel, y, operand, offset, count);
        break;
      case RT_POST_ACTIVATION:
        kernel.activation(step.function, y, y, count);
        break;
      case RT_POST_RESIDUAL_ADD:
        kernel.add_to(y, operand + offset, count);
        break;
      default:
        kernel.activation_backward(step.function, y, operand + offset, y, count);
    }
  }
  if (fills_padding_) clear_padding(y, offset, count);
}

void PostChain::apply_to_rectangle(const kernels::Table& kernel, float* y, int64_t row_length,
                                   const Rectangle& part, const void* const* inputs) const {
  // Whole rows follow each other: as many at a time as fit into the first-level cache.
  constexpr int64_t kCachedElements = 4096;
  const bool whole = part.columns == row_length;
  const int64_t together = whole ? std::max(kCachedElements / row_length, int64_t{1}) : 1;
  for (int64_t r = 0; r < part.rows; r += together) {
    const int64_t offset = (part.row + r) * row_length + part.column;
    const int64_t count = std::min(together, part.rows - r) * part.columns;
    apply(kernel, y + offset, offset, count, inputs);
  }
}

void PostChain::apply_to_narrow(const kernels::Table& kernel, uint16_t* y, int64_t offset,
                                int64_t count, const void* const* inputs) const {
  if (steps_.empty()) return;
  constexpr int64_t kPiece = 1024;
  alignas(64) float values[kPiece];
  for (int64_t i = 0; i < count; i += kPiece) {
    const int64_t length = std::min(kPiece, count - i);
    kernel.widen(y + i, values, length);
    apply_to_wide(kernel, values, offset + i, length, inputs);
    kernel.narrow(values, y + i, length);
  }
}

void PostChain::apply_to_wide(const kernels::Table& kernel, float* values, int64_t offset,
                              int64_t count, const void* const* inputs) const {
  if (steps_.empty()) return;
  constexpr int64_t kPiece = 1024;
  alignas(64) float operand[kPiece];
  for (int64_t i = 0; i < count;) {
    // A piece ends where the channels begin again.
    const int64_t channel = (offset + i) % order_.block;
    const int64_t length = std::min({kPiece, count - i, order_.block - channel});
    float* y = values + i;
    for (const Step& step : steps_) {
      if (step.kind == RT_POST_ACTIVATION) {
        kernel.activation(step.function, y, y, length);
        continue;
      }
      const auto* from = static_cast<const uint16_t*>(inputs[step.operand]);
      kernel.widen(from + (step.kind == RT_POST_BIAS ? channel : offset + i), operand, length);
      if (step.kind == RT_POST_ACTIVATION_BACKWARD) {
        kernel.activation_backward(step.function, y, operand, y, length);
      } else {
        kernel.add_to(y, operand, length);
      }
    }
    i += length;
  }
}

void PostChain::add_bias(const kernels::Table& kernel, float* y, const float* bias, int64_t offset,
                         int64_t count) const {
  for_blocks(order_, offset, count, [&](int64_t i, int64_t length, int64_t channel) {
    const int64_t real = std::min(order_.block, order_.channels - channel);
    const int64_t lane = (offset + i) % order_.block;
    if (order_.block == 1) {  // one channel for many elements
      kernel.binary(kernels::Binary::kAdd, y + i, 1, bias + channel, 0, y + i, length);
    } else if (real == order_.block) {
      kernel.add_bias(y + i, bias + channel, lane, order_.block, length);
    } else {
      for_lanes(order_.block, lane, length, [&](int64_t k, int64_t c) {
        if (c < real) y[i + k] += bias[channel + c];
      });
    }
  });
}

void PostChain::clear_padding(float* y, int64_t offset, int64_t count) const {
  for_blocks(order_, offset, count, [&](int64_t i, int64_t length, int64_t channel) {
    const int64_t real = order_.channels - channel;
    if (real >= order_.block) return;
    for_lanes(order_.block, (offset + i) % order_.block, length, [&](int64_t k, int64_t c) {
      if (c >= real) y[i + k] = 0.0f;
    });
  });
}

}  // namespace backends::cpu
