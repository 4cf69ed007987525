// The plans of attention on bfloat16; attention.h does the work.
#include "backends/cpu/bfloat16/attention.h"
#include "backends/cpu/bfloat16/plans.h"
#include "rt/operations.h"

namespace backends::cpu {

// The plan for float32, which the caller has made, checks shapes and attributes.
std::unique_ptr<Plan> make_bfloat16_attention(const NativeContext& context, const Operation& op) {
  const bool forward = op.is(RT_OP_ATTENTION);
  if (!forward && !op.is(RT_OP_ATTENTION_BACKWARD)) return nullptr;
  const bfloat16::MatrixUnit* unit = bfloat16::matrix_unit();
  const rt_tensor_desc& qkv = op.input(forward ? 0 : 1);
  const int64_t heads = op.integer(RT_ATTR_HEADS);
  const bfloat16::AttentionShape shape{qkv.dims[0], qkv.dims[1], heads, qkv.dims[2] / 3 / heads,
                                       op.integer(RT_ATTR_CAUSAL, 0) != 0};
  if (unit == nullptr || shape.length > bfloat16::kLongestSequence) return nullptr;
  const bfloat16::Attention work(shape, context.engine.threads(), *unit, context.engine.kernels());
  const auto finish = [&](auto plan) -> std::unique_ptr<Plan> {
    plan->edit().workspace_bytes = work.workspace_bytes(!forward);
    if (forward) plan->edit().saved_bytes = work.saved_bytes();
    return plan;
  };
  if (forward) {
    return finish(make_plan(context, "bfloat16:attention:amx", [work](const rt_launch& l) {
      work.forward(input<uint16_t>(l, 0), output<uint16_t>(l, 0), static_cast<float*>(l.saved),
                   l.workspace);
    }));
  }
  return finish(make_plan(context, "bfloat16:attention_backward:amx", [work](const rt_launch& l) {
    work.backward(input<uint16_t>(l, 0), input<uint16_t>(l, 1), input<uint16_t>(l, 2),
                  static_cast<const float*>(l.saved), output<uint16_t>(l, 0), l.workspace);
  }));
}

}  // namespace backends::cpu
