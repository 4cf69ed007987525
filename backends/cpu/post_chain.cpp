#include "backends/cpu/post_chain.h"

#include "backends/cpu/kernels/elementwise.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

bool needs_operand(int32_t kind) { return kind != RT_POST_ACTIVATION; }

bool has_function(int32_t kind) {
  return kind == RT_POST_ACTIVATION || kind == RT_POST_ACTIVATION_BACKWARD;
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

uint32_t chain_prefix(const Operation& op, uint64_t output_layout, uint32_t done) {
  const bool foreign = output_layout != RT_LAYOUT_CANONICAL;
  uint32_t count = done;
  for (; count < op.post_op_count(); ++count) {
    const rt_post_op& post = op.post_op(count);
    const bool moves_zero =
        post.kind == RT_POST_ACTIVATION && post.function == RT_ACTIVATION_SIGMOID;
    if (foreign && (post.kind == RT_POST_BIAS || moves_zero)) break;
  }
  return count;
}

PostChain::PostChain(const Operation& op, uint32_t begin, int64_t channels) : channels_(channels) {
  for (uint32_t i = begin; i < op.post_op_count(); ++i) {
    const rt_post_op& post = op.post_op(i);
    steps_.push_back({post.kind, post.function, post.operand});
  }
}

bool PostChain::has_bias() const {
  for (const Step& step : steps_) {
    if (step.kind == RT_POST_BIAS) return true;
  }
  return false;
}

void PostChain::apply(float* y, int64_t offset, int64_t count, const void* const* inputs) const {
  for (const Step& step : steps_) {
    const auto* operand =
        step.operand < 0 ? nullptr : static_cast<const float*>(inputs[step.operand]);
    switch (step.kind) {
      case RT_POST_BIAS:
        kernels::add_bias(y, operand, offset, channels_, count);
        break;
      case RT_POST_ACTIVATION:
        kernels::activation(step.function, y, y, count);
        break;
      case RT_POST_RESIDUAL_ADD:
        kernels::add_to(y, operand + offset, count);
        break;
      default:
        kernels::activation_backward(step.function, y, operand + offset, y, count);
    }
  }
}

}  // namespace backends::cpu
