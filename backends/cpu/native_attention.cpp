// The plans of attention and its gradient; attention/ does the work.
#include "backends/cpu/attention/attention.h"
#include "backends/cpu/native.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

// The sizes of an attention, from its operand `qkv` [N,T,3C] and `y`, an operand shaped like the
// result [N,T,C].
attention::Shape read_shape(const Operation& op, const rt_tensor_desc& qkv,
                            const rt_tensor_desc& y) {
  const int64_t heads = op.integer(RT_ATTR_HEADS);
  const bool fits = qkv.rank == 3 && y.rank == 3 && heads > 0 && qkv.dims[0] == y.dims[0] &&
                    qkv.dims[1] == y.dims[1] && qkv.dims[2] == 3 * y.dims[2] && y.dims[2] > 0 &&
                    y.dims[2] % heads == 0;
  if (!fits) {
    op.fail(rt::sdk::format("%ld heads, qkv ", static_cast<long>(heads)) + rt::sdk::to_string(qkv) +
            ", y " + rt::sdk::to_string(y) +
            "; expected qkv [N,T,3C], y [N,T,C], C a multiple of the heads");
  }
  return {qkv.dims[0], qkv.dims[1], heads, y.dims[2] / heads, op.integer(RT_ATTR_CAUSAL, 0) != 0};
}

std::unique_ptr<Plan> make_attention(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  const attention::Attention work(read_shape(op, op.input(0), op.output(0)),
                                  context.engine.threads(),
                                  attention::kernels_for(context.engine.isa()));
  auto plan = make_plan(context, "native:attention", [work](const rt_launch& l) {
    work.forward(input<float>(l, 0), output<float>(l, 0), static_cast<float*>(l.saved),
                 static_cast<float*>(l.workspace));
  });
  plan->edit().saved_bytes = work.saved_bytes();
  plan->edit().workspace_bytes = work.forward_workspace_bytes();
  return plan;
}

std::unique_ptr<Plan> make_attention_backward(const NativeContext& context, const Operation& op) {
  expect_counts(op, 3, 1);
  expect_float(op);
  expect_same_dims(op, op.input(0), op.input(2));
  expect_same_dims(op, op.input(1), op.output(0));
  const attention::Attention work(read_shape(op, op.input(1), op.input(0)),
                                  context.engine.threads(),
                                  attention::kernels_for(context.engine.isa()));
  auto plan = make_plan(context, "native:attention_backward", [work](const rt_launch& l) {
    work.backward(input<float>(l, 0), input<float>(l, 1), input<float>(l, 2),
                  static_cast<const float*>(l.saved), output<float>(l, 0),
                  static_cast<float*>(l.workspace));
  });
  plan->edit().workspace_bytes = work.backward_workspace_bytes();
  return plan;
}

}  // namespace

double attention_ns(const Engine& engine, const Operation& op) {
  const bool forward = op.is(RT_OP_ATTENTION);
  if (!forward && !op.is(RT_OP_ATTENTION_BACKWARD)) return 0;
  const rt_tensor_desc& qkv = op.input(forward ? 0 : 1);
  const double share = op.integer(RT_ATTR_CAUSAL, 0) != 0 ? 0.53 : 1.0;
  // The number of rows times the number of features.
  const auto rows = static_cast<double>(rt::sdk::element_count(qkv)) / 3;
  const double products = (forward ? 2.0 : 5.0) * rows * static_cast<double>(qkv.dims[1]) * share;
  return 2.0 * products / (0.75 * engine.peak_flops_per_ns());
}

namespace {

constexpr NativeKernel kAttentionKernels[] = {
    {RT_OP_ATTENTION, LayoutRule::kCanonical, make_attention},
    {RT_OP_ATTENTION_BACKWARD, LayoutRule::kCanonical, make_attention_backward},
};

}  // namespace

KernelTable attention_kernels() { return {kAttentionKernels, std::size(kAttentionKernels)}; }

}  // namespace backends::cpu
