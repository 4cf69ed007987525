// The plans of attention in both forms and of its gradient; attention/ does the work.
#include <algorithm>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/native.h"
#include "rt/operations.h"
#include "rt/sdk/attention_operands.h"

namespace backends::cpu {
namespace {

// The sizes of an attention, from its operand `qkv` [N,T,3C] and `y`, an operand shaped like the
// result [N,T,C].
attention::Shape packed_shape(const Operation& op, const rt_tensor_desc& qkv,
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
  return rt::sdk::packed_attention(qkv.dims[0], qkv.dims[1], heads, y.dims[2] / heads,
                                   op.integer(RT_ATTR_CAUSAL, 0) != 0);
}

// q, k and v inside qkv, or their gradients inside that of qkv. T may be const.
template <typename T>
attention::Operand<T> part_of(const attention::Shape& s, T* qkv, int64_t part) {
  const int64_t features = s.heads * s.width;
  return {qkv + part * features, 3 * features};
}

attention::Inputs packed_inputs(const attention::Shape& s, const float* qkv) {
  return {part_of(s, qkv, 0), part_of(s, qkv, 1), part_of(s, qkv, 2)};
}

// The operands from input `first` on, and the optional ones behind input `last`.
attention::Inputs inputs_of(const attention::Shape& s, const rt_launch& l, uint32_t first,
                            uint32_t last) {
  attention::Inputs inputs{{input<float>(l, first), s.heads * s.width},
                           {input<float>(l, first + 1), s.key_heads * s.width},
                           {input<float>(l, first + 2), s.key_heads * s.value_width}};
  if (s.counters) {
    inputs.step = input<int64_t>(l, last + 1);
    inputs.base = input<int64_t>(l, last + 2);
  }
  if (s.documents > 0) inputs.documents = input<int32_t>(l, last + 3);
  return inputs;
}

attention::Attention work_of(const NativeContext& context, const attention::Shape& shape) {
  return {shape, context.engine.threads(), attention::kernels_for(context.engine.isa())};
}

// A plan that calls run(launch).
template <typename Run>
std::unique_ptr<Plan> forward_plan(const NativeContext& context, const attention::Attention& work,
                                   const char* name, Run run) {
  auto plan = make_plan(context, name, run);
  plan->edit().saved_bytes = work.saved_bytes();
  plan->edit().workspace_bytes = work.forward_workspace_bytes();
  return plan;
}
template <typename Run>
std::unique_ptr<Plan> backward_plan(const NativeContext& context, const attention::Attention& work,
                                    const char* name, Run run) {
  auto plan = make_plan(context, name, run);
  plan->edit().workspace_bytes = work.backward_workspace_bytes();
  return plan;
}

std::unique_ptr<Plan> make_attention(const NativeContext& context, const Operation& op) {
  expect_counts(op, 1, 1);
  expect_float(op);
  const attention::Shape s = packed_shape(op, op.input(0), op.output(0));
  const attention::Attention work = work_of(context, s);
  return forward_plan(context, work, "native:attention", [work, s](const rt_launch& l) {
    work.forward(packed_inputs(s, input<float>(l, 0)), {output<float>(l, 0), s.heads * s.width},
                 static_cast<float*>(l.saved), static_cast<float*>(l.workspace));
  });
}

std::unique_ptr<Plan> make_attention_backward(const NativeContext& context, const Operation& op) {
  expect_counts(op, 3, 1);
  expect_float(op);
  expect_same_dims(op, op.input(0), op.input(2));
  expect_same_dims(op, op.input(1), op.output(0));
  const attention::Shape s = packed_shape(op, op.input(1), op.input(0));
  const attention::Attention work = work_of(context, s);
  return backward_plan(context, work, "native:attention_backward", [work, s](const rt_launch& l) {
    const int64_t features = s.heads * s.width;
    float* const dqkv = output<float>(l, 0);
    work.backward(packed_inputs(s, input<float>(l, 1)),
                  {{input<float>(l, 0), features},
                   {input<float>(l, 2), features},
                   part_of(s, dqkv, 0),
                   part_of(s, dqkv, 1),
                   part_of(s, dqkv, 2)},
                  static_cast<const float*>(l.saved), static_cast<float*>(l.workspace));
  });
}

std::unique_ptr<Plan> make_dot_product_attention(const NativeContext& context,
                                                 const Operation& op) {
  const attention::Shape s = rt::sdk::dot_product_attention_shape(op, RT_FLOAT32);
  const attention::Attention work = work_of(context, s);
  return forward_plan(context, work, "native:dot_product_attention", [work, s](const rt_launch& l) {
    work.forward(inputs_of(s, l, 0, 2), {output<float>(l, 0), s.heads * s.value_width},
                 static_cast<float*>(l.saved), static_cast<float*>(l.workspace));
  });
}

std::unique_ptr<Plan> make_dot_product_attention_backward(const NativeContext& context,
                                                          const Operation& op) {
  const attention::Shape s = rt::sdk::dot_product_attention_backward_shape(op, RT_FLOAT32);
  const attention::Attention work = work_of(context, s);
  return backward_plan(
      context, work, "native:dot_product_attention_backward", [work, s](const rt_launch& l) {
        work.backward(inputs_of(s, l, 1, 4),
                      {{input<float>(l, 0), s.heads * s.value_width},
                       {input<float>(l, 4), s.heads * s.value_width},
                       {output<float>(l, 0), s.heads * s.width},
                       {output<float>(l, 1), s.key_heads * s.width},
                       {output<float>(l, 2), s.key_heads * s.value_width}},
                      static_cast<const float*>(l.saved), static_cast<float*>(l.workspace));
      });
}

// The share of the pairs of a query and a key for which products are made, as far as `causal` and
// the window say.
double share_of(const Operation& op, int64_t queries, int64_t keys) {
  if (op.integer(RT_ATTR_CAUSAL, 0) == 0) return 1;
  const int64_t window = op.integer(RT_ATTR_WINDOW, 0);
  const auto pairs = static_cast<double>(queries) * static_cast<double>(keys);
  const double below = queries == keys ? 0.53 : 1 - static_cast<double>(queries) / 2 / keys;
  const double near = static_cast<double>(queries) * static_cast<double>(window + 64) / pairs;
  return window > 0 ? std::min(below, near) : std::max(below, 0.1);
}

// Multiply-adds of the general form, for one pair of operands that `first` and `first` + 1 name.
double general_products(const Operation& op, bool forward) {
  const uint32_t first = forward ? 0 : 1;
  const rt_tensor_desc &q = op.input(first), &k = op.input(first + 1), &v = op.input(first + 2);
  const double columns = static_cast<double>(q.dims[2]) * (forward ? 1 : 3) +
                         static_cast<double>(v.dims[2]) / static_cast<double>(k.dims[2]) *
                             static_cast<double>(q.dims[2]) * (forward ? 1 : 2);
  return columns * static_cast<double>(q.dims[0] * q.dims[1]) * static_cast<double>(k.dims[1]) *
         share_of(op, q.dims[1], k.dims[1]);
}

}  // namespace

double attention_ns(const Engine& engine, const Operation& op) {
  const bool forward = op.is(RT_OP_ATTENTION), backward = op.is(RT_OP_ATTENTION_BACKWARD);
  const bool general = op.is(RT_OP_DOT_PRODUCT_ATTENTION);
  double products = 0;
  if (forward || backward) {
    const rt_tensor_desc& qkv = op.input(forward ? 0 : 1);
    // The number of rows times the number of features.
    const auto rows = static_cast<double>(rt::sdk::element_count(qkv)) / 3;
    products = (forward ? 2.0 : 5.0) * rows * static_cast<double>(qkv.dims[1]) *
               share_of(op, qkv.dims[1], qkv.dims[1]);
  } else if (general || op.is(RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD)) {
    products = general_products(op, general);
  }
  return 2.0 * products / (0.75 * engine.peak_flops_per_ns());
}

namespace {

constexpr NativeKernel kAttentionKernels[] = {
    {RT_OP_ATTENTION, LayoutRule::kCanonical, make_attention},
    {RT_OP_ATTENTION_BACKWARD, LayoutRule::kCanonical, make_attention_backward},
    {RT_OP_DOT_PRODUCT_ATTENTION, LayoutRule::kCanonical, make_dot_product_attention},
    {RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD, LayoutRule::kCanonical,
     make_dot_product_attention_backward},
};

}  // namespace

KernelTable attention_kernels() { return {kAttentionKernels, std::size(kAttentionKernels)}; }

}  // namespace backends::cpu
