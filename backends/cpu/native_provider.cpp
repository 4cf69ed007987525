// This provider has our own kernels, and checks the layouts and post-operations of calls.
#include "backends/cpu/native_provider.h"

#include <algorithm>

#include "backends/cpu/batch_blocked/plans.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"
#include "rt/sdk/post_ops.h"

namespace backends::cpu {
namespace {

bool foreign(uint64_t layout) { return layout != RT_LAYOUT_CANONICAL && layout != RT_LAYOUT_ANY; }

// Why a description is refused: operand `operand` (outputs from 100) cannot have the layout that it
// has.
struct Refusal {
  int32_t operand;
  const char* why;
};

// Calls f(number, tensor, layout in the candidate) for the inputs and then for the outputs, which
// are numbered from 100.
template <typename F>
void for_each_operand(const Operation& op, Candidate& c, F&& f) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    f(static_cast<int32_t>(i), op.input(i), c.input_layouts[i]);
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    f(static_cast<int32_t>(100 + i), op.output(i), c.output_layouts[i]);
  }
}

// Gives the canonical layout to every operand that is not `allowed` another, and refuses such an
// operand if its layout is fixed to a foreign one.
template <typename Allowed>
std::optional<Refusal> rest_canonical(const Operation& op, Candidate& c, Allowed&& allowed) {
  std::optional<Refusal> refusal;
  for_each_operand(op, c, [&](int32_t number, const rt_tensor_desc& tensor, uint64_t& slot) {
    if (allowed(number, tensor)) return;
    slot = RT_LAYOUT_CANONICAL;
    if (foreign(tensor.layout) && !refusal) {
      refusal = Refusal{number, "must have the canonical layout"};
    }
  });
  return refusal;
}

// Whether the operation makes another number of 0, which the padding of a foreign layout holds.
bool moves_zero(const Operation& op) {
  if (!op.is(RT_OP_ACTIVATION)) return op.is(RT_OP_DIVIDE);
  switch (op.integer(RT_ATTR_FUNCTION)) {
    case RT_ACTIVATION_SIGMOID:
    case RT_ACTIVATION_EXP:
    case RT_ACTIVATION_LOG:
    case RT_ACTIVATION_RECIPROCAL:
    case RT_ACTIVATION_COS:
      return true;
    default:
      return false;
  }
}

// A batch-blocked image every lane of which has a sample.
bool is_full_block(const rt_tensor_desc& tensor) {
  return tensor.layout == batch_blocked::kLayout && tensor.rank == 4 &&
         tensor.dims[0] % batch_blocked::kBlock == 0;
}

// Gives all operands shaped like output 0 the same layout: the first foreign one among them, or the
// canonical layout if there is none.
std::optional<Refusal> shared_layout(const NativeContext& context, const Operation& op, bool image,
                                     Candidate& c) {
  const rt_tensor_desc& y = op.output(0);
  uint64_t layout = RT_LAYOUT_CANONICAL;
  for_each_operand(op, c, [&](int32_t, const rt_tensor_desc& tensor, uint64_t&) {
    if (layout == RT_LAYOUT_CANONICAL && foreign(tensor.layout) && rt::sdk::same_dims(tensor, y)) {
      layout = tensor.layout;
    }
  });
  if (layout != RT_LAYOUT_CANONICAL) {
    const rt_tensor_desc probe = with_layout(y, layout);
    const bool works = image ? context.layouts.image_view(probe) || is_full_block(probe)
                             : context.engine.layout_is_elementwise(probe);
    if (!works) return Refusal{0, "has a layout that this operation does not take"};
  }
  std::optional<Refusal> refusal;
  for_each_operand(op, c, [&](int32_t number, const rt_tensor_desc& tensor, uint64_t& slot) {
    const bool same = rt::sdk::same_dims(tensor, y);
    slot = same ? layout : RT_LAYOUT_CANONICAL;
    if (tensor.layout != RT_LAYOUT_ANY && tensor.layout != slot && !refusal) {
      refusal = Refusal{number, "must have the layout of the other operands"};
    }
    const bool own = number >= 100 || number < static_cast<int32_t>(op.own_input_count());
    if (own && !same && layout != RT_LAYOUT_CANONICAL && !image && !refusal) {
      refusal = Refusal{number, "is broadcast, which is only done in the canonical layout"};
    }
  });
  if (moves_zero(op) && layout != RT_LAYOUT_CANONICAL) {
    return Refusal{0, "has padding that this function would not keep zero"};
  }
  return refusal;
}

// The layouts that an image may get: its own if that is fixed, else the canonical one and one with
// the same blocks of channels as `like`.
std::vector<uint64_t> image_choices(const NativeContext& context, const rt_tensor_desc& tensor,
                                    const rt_tensor_desc& like) {
  if (tensor.layout != RT_LAYOUT_ANY) return {tensor.layout};
  std::vector<uint64_t> choices = {RT_LAYOUT_CANONICAL};
  if (foreign(like.layout)) {
    if (const auto view = context.layouts.image_view(like)) {
      const uint64_t same = context.layouts.blocked_image(tensor, view->block);
      if (same != RT_LAYOUT_ANY && same != RT_LAYOUT_CANONICAL)
        choices.insert(choices.begin(), same);
    }
  }
  return choices;
}

struct Resolution {
  std::vector<Candidate> candidates;
  std::optional<Refusal> refusal;
};

Resolution resolve_pooling(const NativeContext& context, const Operation& op) {
  Resolution result;
  const rt_tensor_desc &x = op.input(0), &y = op.output(0);
  const auto shaped_like_y = [&](int32_t number, const rt_tensor_desc& tensor) {
    return number == 0 || number == 100 ||
           (number < 100 && number > 0 && rt::sdk::same_dims(tensor, y));
  };
  for (const rt_tensor_desc* image : {&x, &y}) {
    if (foreign(image->layout) && !context.layouts.image_view(*image)) {
      result.refusal = Refusal{image == &x ? 0 : 100, "has a layout that pooling does not take"};
      return result;
    }
  }
  for (const uint64_t in : image_choices(context, x, y)) {
    for (const uint64_t out : image_choices(context, y, x)) {
      Candidate c;
      if (const auto refusal = rest_canonical(op, c, shaped_like_y)) {
        result.refusal = refusal;
        return result;
      }
      for (uint32_t i = 1; i < op.input_count(); ++i) {
        if (rt::sdk::same_dims(op.input(i), y)) c.input_layouts[i] = out;
      }
      c.input_layouts[0] = in;
      c.output_layouts[0] = out;
      result.candidates.push_back(std::move(c));
    }
  }
  return result;
}

Resolution resolve(const NativeContext& context, const Operation& op, LayoutRule rule) {
  if (rule == LayoutRule::kPooling) return resolve_pooling(context, op);
  Resolution result;
  Candidate c;
  if (rule == LayoutRule::kElementwise || rule == LayoutRule::kSameImage) {
    result.refusal = shared_layout(context, op, rule == LayoutRule::kSameImage, c);
  } else {
    const int32_t image = rule == LayoutRule::kImageInput    ? 0
                          : rule == LayoutRule::kImageOutput ? 100
                                                             : -1;
    result.refusal = rest_canonical(op, c, [&](int32_t number, const rt_tensor_desc& tensor) {
      return number == image && foreign(tensor.layout) && context.layouts.image_view(tensor);
    });
    if (image == 0 && foreign(op.input(0).layout)) c.input_layouts[0] = op.input(0).layout;
    if (image == 100 && foreign(op.output(0).layout)) c.output_layouts[0] = op.output(0).layout;
  }
  if (!result.refusal) result.candidates.push_back(std::move(c));
  return result;
}

double estimate(const Engine& engine, const Operation& op) {
  double bytes = 0;
  const auto add = [&](const rt_tensor_desc& tensor) {
    bytes += static_cast<double>(rt::sdk::element_count(tensor)) *
             static_cast<double>(rt::sdk::dtype_bytes(tensor.dtype));
  };
  for (uint32_t i = 0; i < op.input_count(); ++i) add(op.input(i));
  for (uint32_t i = 0; i < op.output_count(); ++i) add(op.output(i));
  return 1000.0 + std::max(bytes / engine.bytes_per_ns(), attention_ns(engine, op));
}

// Is it max pooling by a window with more elements than the 32 bits of a winner count?
bool has_too_large_window(const Operation& op) {
  if (!op.is(RT_OP_MAX_POOL2D) && !op.is(RT_OP_MAX_POOL2D_BACKWARD)) return false;
  const int64_t height = op.integer(RT_ATTR_KERNEL_H), width = op.integer(RT_ATTR_KERNEL_W);
  return height > 0 && width > INT32_MAX / height;
}

}  // namespace

const NativeKernel* find_native_kernel(const Operation& op) {
  for (const KernelTable table :
       {elementwise_kernels(), pooling_kernels(), loss_kernels(), reduction_kernels(),
        optimizer_kernels(), norm_kernels(), norm_parts_kernels(), row_norm_kernels(),
        gate_kernels(), rotary_kernels(), data_kernels(), attention_kernels()}) {
    for (size_t i = 0; i < table.count; ++i) {
      if (op.is(table.begin[i].name)) return &table.begin[i];
    }
  }
  return nullptr;
}

Answer NativeProvider::query(const Operation& op) {
  Answer answer;
  const NativeKernel* kernel = find_native_kernel(op);
  if (kernel == nullptr) return answer;
  check_post_ops(op);
  if (op.is(RT_OP_ACTIVATION_BACKWARD) && rt::sdk::is_forward_only(op.integer(RT_ATTR_FUNCTION))) {
    answer.reason = "activation_backward: exp, log, sqrt and reciprocal exist for activation only";
    return answer;
  }
  if (has_too_large_window(op)) {
    answer.reason = rt::sdk::format("%s: a window of more than %d elements; use a smaller one",
                                    op.desc().name, INT32_MAX);
    return answer;
  }
  const bool other_layouts = op.is(RT_OP_COPY) && op.input(0).layout != op.output(0).layout;
  if (other_layouts && op.input(0).layout != RT_LAYOUT_ANY &&
      op.output(0).layout != RT_LAYOUT_ANY) {
    return answer;  // a reorder, which the provider of the layout does
  }
  Resolution resolution = resolve(context_, op, kernel->rule);
  if (resolution.refusal) {
    const int32_t operand = resolution.refusal->operand;
    answer.reason_operand = operand;
    answer.reason =
        rt::sdk::format("%s: %s %d %s; nearest supported: canonical layouts", op.desc().name,
                        operand < 100 ? "input" : "output", operand % 100, resolution.refusal->why);
    return answer;
  }
  // Making a native plan is cheap, and it checks shapes and attributes.
  const auto plan = kernel->make(context_, op);
  answer.level = RT_SUPPORT_NATIVE;
  answer.post_ops_fused = kernel->has(NativeKernel::kFuses) ? op.post_op_count() : 0;
  for (Candidate& c : resolution.candidates) {
    c.algorithm = 1;
    c.estimated_ns = estimate(context_.engine, op);
    c.implementation = plan->info().implementation;
    if (kernel->has(NativeKernel::kFuses)) {
      const rt_tensor_desc y = with_layout(op.output(0), c.output_layouts[0]);
      answer.post_ops_fused =
          std::min(answer.post_ops_fused, chain_prefix(op, context_.engine.channel_order(y)));
    }
    answer.candidates.push_back(std::move(c));
  }
  return answer;
}

std::unique_ptr<Plan> NativeProvider::create(const Operation& op, uint32_t algorithm) {
  const Answer answer = query(op);
  if (answer.level == RT_SUPPORT_REFUSED) {
    if (algorithm == 0) return nullptr;
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED, answer.reason);
  }
  check_prefix(op, answer.post_ops_fused);
  return find_native_kernel(op)->make(context_, op);
}

ImageView NativeContext::view(const Operation& op, const rt_tensor_desc& tensor) const {
  if (tensor.rank != 4)
    return ImageView{row_count(tensor), 1, 1, last_dim(tensor), last_dim(tensor), 1};
  rt_tensor_desc fixed = tensor;
  if (fixed.layout == RT_LAYOUT_ANY) fixed.layout = RT_LAYOUT_CANONICAL;
  const auto view = layouts.image_view(fixed);
  if (!view) op.fail("the layout of an operand is not an image layout of this device");
  return *view;
}

void expect_dtype(const Operation& op, const rt_tensor_desc& tensor, rt_dtype dtype,
                  const char* what) {
  if (tensor.dtype == dtype) return;
  op.fail(std::string(what) + " is " + rt::sdk::to_string(tensor) + ", expected " +
          rt::sdk::to_string(dtype));
}

void expect_float(const Operation& op) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    expect_dtype(op, op.input(i), RT_FLOAT32, ("input " + std::to_string(i)).c_str());
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    expect_dtype(op, op.output(i), RT_FLOAT32, ("output " + std::to_string(i)).c_str());
  }
}

void expect_same_dims(const Operation& op, const rt_tensor_desc& a, const rt_tensor_desc& b) {
  if (rt::sdk::same_dims(a, b)) return;
  op.fail("dims of " + rt::sdk::to_string(a) + " and " + rt::sdk::to_string(b) + " differ");
}

void expect_elements(const Operation& op, const rt_tensor_desc& tensor, int64_t count,
                     const char* what) {
  if (rt::sdk::element_count(tensor) == count) return;
  op.fail(std::string(what) + " is " + rt::sdk::to_string(tensor) +
          rt::sdk::format(", expected %ld elements", static_cast<long>(count)));
}

int64_t row_count(const rt_tensor_desc& tensor) {
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < tensor.rank; ++i) rows *= tensor.dims[i];
  return rows;
}

int64_t last_dim(const rt_tensor_desc& tensor) {
  return tensor.rank > 0 ? tensor.dims[tensor.rank - 1] : 1;
}

}  // namespace backends::cpu
