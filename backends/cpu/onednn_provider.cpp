// Sends convolutions, products and copies to oneDNN, and does those over nothing by itself.
#include "backends/cpu/onednn_provider.h"

#include <cstring>

#include "backends/cpu/native.h"
#include "backends/cpu/primitive_plan.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

bool is_convolution(const Operation& op) {
  return op.is(RT_OP_CONV2D) || op.is(RT_OP_CONV2D_BACKWARD_DATA) ||
         op.is(RT_OP_CONV2D_BACKWARD_WEIGHTS);
}

bool concrete_foreign(uint64_t layout) {
  return layout != RT_LAYOUT_CANONICAL && layout != RT_LAYOUT_ANY;
}

// The registered layouts of both sides of a copy; nullptr for the canonical side. copy_sides is
// empty if oneDNN has nothing to do with the copy.
struct CopySides {
  const Layout* from;
  const Layout* to;
};
std::optional<CopySides> copy_sides(const Layouts& layouts, const Operation& op) {
  if (!op.is(RT_OP_COPY) || op.input_count() != 1 || op.output_count() != 1) return std::nullopt;
  const uint64_t in = op.input(0).layout, out = op.output(0).layout;
  if (in == out || in == RT_LAYOUT_ANY || out == RT_LAYOUT_ANY) return std::nullopt;
  const Layout* from = concrete_foreign(in) ? layouts.find(in) : nullptr;
  const Layout* to = concrete_foreign(out) ? layouts.find(out) : nullptr;
  if ((concrete_foreign(in) && from == nullptr) || (concrete_foreign(out) && to == nullptr)) {
    return std::nullopt;
  }
  if (!rt::sdk::same_dims(op.input(0), op.output(0))) {
    op.fail("dims of " + rt::sdk::to_string(op.input(0)) + " and " +
            rt::sdk::to_string(op.output(0)) + " differ");
  }
  return CopySides{from, to};
}

Answer query_copy(const OnednnContext& context, const Operation& op) {
  Answer answer;
  if (!copy_sides(context.layouts, op)) return answer;
  answer.level = RT_SUPPORT_NATIVE;
  answer.tolerance = 0;
  Candidate candidate;
  candidate.algorithm = 1;
  candidate.estimated_ns =
      reorder_ns(context.engine, static_cast<uint64_t>(rt::sdk::element_count(op.input(0))) *
                                     rt::sdk::dtype_bytes(op.input(0).dtype));
  candidate.input_layouts[0] = op.input(0).layout;
  candidate.output_layouts[0] = op.output(0).layout;
  candidate.implementation = "onednn:reorder";
  answer.candidates.push_back(std::move(candidate));
  return answer;
}

std::unique_ptr<Plan> create_copy(const OnednnContext& context, const Operation& op) {
  const auto sides = copy_sides(context.layouts, op);
  if (!sides) return nullptr;
  auto plan = std::make_unique<PrimitivePlan>(context.engine, context.onednn, "onednn:reorder");
  const Layout& known = sides->from ? *sides->from : *sides->to;
  const size_t from =
      plan->operand(sides->from ? sides->from->foreign : known.canonical, Slot::Kind::kInput, 0);
  const size_t to =
      plan->operand(sides->to ? sides->to->foreign : known.canonical, Slot::Kind::kOutput, 0);
  plan->reorder(from, to);
  return plan;
}

// Is there a batch of no samples, or a sum over nothing? oneDNN 2.6 divides by zero in some of
// these cases.
bool sums_nothing(const Operation& op) {
  for (uint32_t i = 0; i < op.own_input_count(); ++i) {
    if (rt::sdk::element_count(op.input(i)) == 0) return true;
  }
  return rt::sdk::element_count(op.output(0)) == 0;
}

// The form of matmul with the sums over the rows of a.
bool has_row_sums(const Operation& op) { return op.is(RT_OP_MATMUL) && op.output_count() > 1; }
constexpr char kNoRowSums[] =
    "only output c of matmul is computed here, not the sums over the rows of a; use reduce";

Answer refuse_row_sums() {
  Answer answer;
  answer.reason = kNoRowSums;
  answer.reason_operand = 101;
  return answer;
}

Answer query_empty(const Operation& op) {
  Answer answer;
  check_post_ops(op);
  answer.level = RT_SUPPORT_NATIVE;
  answer.post_ops_fused = op.post_op_count();
  Candidate candidate;
  candidate.algorithm = 1;
  candidate.estimated_ns = 100;
  candidate.implementation = "native:empty";
  answer.candidates.push_back(std::move(candidate));
  return answer;
}

// Fills the outputs with zeros and applies the post-operations.
std::unique_ptr<Plan> create_empty(const OnednnContext& context, const Operation& op) {
  std::vector<int64_t> counts, bytes;
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    counts.push_back(rt::sdk::element_count(op.output(i)));
    bytes.push_back(counts.back() * static_cast<int64_t>(rt::sdk::dtype_bytes(op.output(i).dtype)));
  }
  const bool narrow = op.output(0).dtype == RT_BFLOAT16;
  const PostChain chain(op, ChannelOrder::innermost(last_dim(op.output(0))));
  auto body = [=, &kernel = context.engine.kernels()](const rt_launch& launch) {
    for (uint32_t i = 0; i < counts.size(); ++i) {
      if (bytes[i] > 0) std::memset(launch.outputs[i], 0, static_cast<size_t>(bytes[i]));
    }
    if (counts[0] == 0) return;
    if (narrow) {
      chain.apply_to_narrow(kernel, output<uint16_t>(launch, 0), 0, counts[0], launch.inputs);
    } else {
      chain.apply(kernel, output<float>(launch, 0), 0, counts[0], launch.inputs);
    }
  };
  return std::make_unique<FunctionPlan<decltype(body)>>("native:empty", std::move(body));
}

}  // namespace

dnnl::primitive_attr default_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

PrimitivePostOps primitive_post_ops(const Operation& op, const MemoryDesc& output,
                                    Residual residual) {
  PrimitivePostOps result;
  result.attributes = default_attributes();
  dnnl::post_ops ops;
  for (; result.taken < op.post_op_count(); ++result.taken) {
    const rt_post_op& post = op.post_op(result.taken);
    if (post.kind == RT_POST_BIAS && result.taken == 0) {
      result.bias_input = post.operand;
    } else if (post.kind == RT_POST_RESIDUAL_ADD && residual == Residual::kBinary) {
      result.binary_inputs.push_back(post.operand);
      result.binary_positions.push_back(ops.len());
      ops.append_binary(dnnl::algorithm::binary_add, output);
    } else if (post.kind == RT_POST_RESIDUAL_ADD && residual == Residual::kSum &&
               result.sum_input < 0) {
      result.sum_input = post.operand;
      ops.append_sum(1.0f);
    } else {
      break;
    }
  }
  result.attributes.set_post_ops(ops);
  return result;
}

OnednnProvider::OnednnProvider(Engine& engine, Layouts& layouts)
    : context_{engine, dnnl::engine(dnnl::engine::kind::cpu, 0), layouts} {}

Answer OnednnProvider::query(const Operation& op) {
  return call_onednn(op.desc().name, [&]() -> Answer {
    if (has_row_sums(op)) return refuse_row_sums();
    if ((is_convolution(op) || op.is(RT_OP_MATMUL)) && sums_nothing(op)) return query_empty(op);
    if (is_convolution(op)) return query_convolution(context_, op);
    if (op.is(RT_OP_MATMUL)) return query_matmul(context_, op);
    return query_copy(context_, op);
  });
}

std::unique_ptr<Plan> OnednnProvider::create(const Operation& op, uint32_t algorithm) {
  return call_onednn(op.desc().name, [&]() -> std::unique_ptr<Plan> {
    if (has_row_sums(op)) {
      if (algorithm == 0) return nullptr;
      op.fail(kNoRowSums);
    }
    if ((is_convolution(op) || op.is(RT_OP_MATMUL)) && sums_nothing(op)) {
      return create_empty(context_, op);
    }
    if (is_convolution(op)) return create_convolution(context_, op, algorithm);
    if (op.is(RT_OP_MATMUL)) return create_matmul(context_, op, algorithm);
    return create_copy(context_, op);
  });
}

std::optional<uint64_t> OnednnProvider::layout_bytes(const rt_tensor_desc& tensor) const {
  const Layout* layout = context_.layouts.find(tensor.layout);
  return layout ? std::optional<uint64_t>(layout->bytes) : std::nullopt;
}

std::optional<std::string> OnednnProvider::layout_name(const rt_tensor_desc& tensor) const {
  const Layout* layout = context_.layouts.find(tensor.layout);
  return layout ? std::optional<std::string>(layout->name) : std::nullopt;
}

bool OnednnProvider::layout_is_elementwise(const rt_tensor_desc& tensor) const {
  const Layout* layout = context_.layouts.find(tensor.layout);
  return layout != nullptr && layout->elementwise;
}

std::optional<ChannelOrder> OnednnProvider::channel_order(const rt_tensor_desc& tensor) const {
  const auto view = context_.layouts.image_view(tensor);
  if (!view) return {};
  return ChannelOrder{view->c, view->block, view->h * view->w * view->block, view->blocks};
}

}  // namespace backends::cpu
