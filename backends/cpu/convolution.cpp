// Convolutions and their gradients by oneDNN: which primitives it has, what they cost, and their
// plans.
#include <algorithm>
#include <array>
#include <string_view>

#include "backends/cpu/bfloat16/widened.h"
#include "backends/cpu/onednn_provider.h"
#include "backends/cpu/primitive_plan.h"
#include "backends/cpu/verified.h"
#include "backends/cpu/window.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

enum class Pass { kForward, kBackwardData, kBackwardWeights };
enum Role : size_t { kSource, kWeights, kDestination, kRoles };

constexpr uint32_t kDirect = 1;
constexpr uint32_t kWinograd = 2;

// A convolution as oneDNN describes it. The dims of the weights are [G,]O,I,KH,KW.
struct ConvolutionProblem {
  Pass pass;
  Dims strides, dilates, padding_begin, padding_end;
  std::array<MemoryDesc, kRoles> canonical;
  std::array<uint64_t, kRoles> layouts;  // of the operands in the operation's description
  std::array<std::pair<Slot::Kind, uint32_t>, kRoles> operands;
  int64_t output_channels = 0;
  bool bias_gradient = false;
  bool bfloat16 = false;
  int64_t kernel_h = 0, kernel_w = 0, in_h = 0, in_w = 0, out_h = 0, out_w = 0;
  Window window;
};

// One primitive description for which oneDNN has an implementation.
struct ConvolutionVariant {
  uint32_t algorithm = kDirect;
  dnnl::primitive_desc_base desc;
  std::array<MemoryDesc, kRoles> actual;   // the layouts that the primitive works on
  std::array<uint64_t, kRoles> layouts{};  // the layouts that the operands of the plan have
  PrimitivePostOps post;
  double estimated_ns = 0;
  std::string name;
  bool slow_reference = false;
  // The primitive writes the output in float32, so that it is rounded to bfloat16 only after the
  // post-operations.
  bool wide = false;
};

ConvolutionProblem parse_convolution(const Operation& op) {
  ConvolutionProblem p;
  constexpr auto in = Slot::Kind::kInput, out = Slot::Kind::kOutput;
  const bool forward = op.is(RT_OP_CONV2D), data = op.is(RT_OP_CONV2D_BACKWARD_DATA);
  p.pass = forward ? Pass::kForward : data ? Pass::kBackwardData : Pass::kBackwardWeights;
  if (forward) p.operands = {{{in, 0}, {in, 1}, {out, 0}}};
  if (data) p.operands = {{{out, 0}, {in, 1}, {in, 0}}};
  if (!forward && !data) p.operands = {{{in, 0}, {out, 0}, {in, 1}}};
  const auto tensor = [&](Role role) -> const rt_tensor_desc& {
    const auto [kind, index] = p.operands[role];
    return kind == in ? op.input(index) : op.output(index);
  };
  const rt_tensor_desc &x = tensor(kSource), &w = tensor(kWeights), &y = tensor(kDestination);
  const Window window = convolution_window(op, x, w, y);
  const int64_t groups = op.integer(RT_ATTR_GROUPS, 1);
  p.strides = {window.stride_h, window.stride_w};
  p.dilates = {window.dilation_h - 1, window.dilation_w - 1};
  p.padding_begin = {window.pad_top, window.pad_left};
  p.padding_end = {window.pad_bottom, window.pad_right};
  p.canonical = {image_desc(x), weights_desc(w, groups), image_desc(y)};
  for (size_t role = 0; role < kRoles; ++role) p.layouts[role] = tensor(Role(role)).layout;
  p.output_channels = w.dims[0];
  p.bfloat16 = x.dtype == RT_BFLOAT16;
  p.bias_gradient = p.pass == Pass::kBackwardWeights && op.output_count() > 1;
  p.kernel_h = w.dims[1], p.kernel_w = w.dims[2];
  p.in_h = x.dims[1], p.in_w = x.dims[2], p.out_h = y.dims[1], p.out_w = y.dims[2];
  p.window = window;
  return p;
}

MemoryDesc any_desc(const MemoryDesc& desc) {
  const MemoryParts parts = take_apart(desc);
  return MemoryDesc(parts.dims, parts.type, dnnl::memory::format_tag::any);
}

// The bias or its gradient.
MemoryDesc vector_desc(const ConvolutionProblem& p) {
  return strided_desc({p.output_channels}, {1}, p.bfloat16 ? DataType::bf16 : DataType::f32);
}

dnnl::algorithm onednn_algorithm(uint32_t algorithm) {
  return algorithm == kWinograd ? dnnl::algorithm::convolution_winograd
                                : dnnl::algorithm::convolution_direct;
}

using Descs = std::array<MemoryDesc, kRoles>;

bool stays_inside(const ConvolutionProblem& p,
                  const dnnl::convolution_backward_weights::primitive_desc& d) {
  const MemoryParts source = take_apart(d.src_desc());
  return weight_gradient_stays_inside(d.impl_info_str(), p.window, source.dims[1],
                                      source.inner_blocks.empty());
}

// oneDNN's descriptions share what they refer to, so the base keeps all of it.
void keep(const dnnl::primitive_desc_base& desc, ConvolutionVariant& v) { v.desc = desc; }

// Fills v.desc and v.actual; returns false if oneDNN has no such primitive. Gradients need the
// description of the forward primitive as well: oneDNN calls it their hint.
bool describe(const OnednnContext& context, const ConvolutionProblem& p, const Descs& m,
              const dnnl::primitive_attr& attr, bool bias, ConvolutionVariant& v) {
  const auto algorithm = onednn_algorithm(v.algorithm);
  const MemoryDesc bias_desc = bias || p.bias_gradient ? vector_desc(p) : MemoryDesc();
  const auto forward = make_desc<dnnl::convolution_forward>(
      context.onednn, p.pass == Pass::kForward ? attr : default_attributes(),
      dnnl::prop_kind::forward_training, algorithm,
      v.wide && p.pass == Pass::kBackwardData ? p.canonical[kSource] : m[kSource], m[kWeights],
      bias_desc, m[kDestination], p.strides, p.dilates, p.padding_begin, p.padding_end);
  if (!exists(forward)) return false;
  if (p.pass == Pass::kForward) {
    keep(forward, v);
    v.actual = {forward.src_desc(), forward.weights_desc(), forward.dst_desc()};
    return true;
  }
  if (p.pass == Pass::kBackwardData) {
    const auto desc = make_backward_desc<dnnl::convolution_backward_data>(
        context.onednn, attr, forward, algorithm, m[kSource], m[kWeights], m[kDestination],
        p.strides, p.dilates, p.padding_begin, p.padding_end);
    if (!exists(desc)) return false;
    keep(desc, v);
    v.actual = {desc.diff_src_desc(), desc.weights_desc(), desc.diff_dst_desc()};
    return true;
  }
  const auto inside = [&](const dnnl::convolution_backward_weights::primitive_desc& d) {
    return stays_inside(p, d);
  };
  const auto desc = first_backward_desc<dnnl::convolution_backward_weights>(
      inside, context.onednn, attr, forward, algorithm, m[kSource], m[kWeights], bias_desc,
      m[kDestination], p.strides, p.dilates, p.padding_begin, p.padding_end);
  if (!exists(desc)) return false;
  keep(desc, v);
  v.actual = {desc.src_desc(), desc.diff_weights_desc(), desc.diff_dst_desc()};
  return true;
}

uint64_t moved_bytes(const ConvolutionProblem& p, const ConvolutionVariant& v) {
  uint64_t bytes = 0;
  for (size_t role = 0; role < kRoles; ++role) {
    if (v.layouts[role] == RT_LAYOUT_CANONICAL && !same_memory(v.actual[role], p.canonical[role])) {
      bytes += v.actual[role].get_size();
    }
  }
  return bytes;
}

// Nanoseconds of one launch. The rates are fractions of the peak, from measurements of oneDNN 2.6
// (see README.md).
double estimate(const Engine& engine, const ConvolutionProblem& p, const ConvolutionVariant& v,
                uint32_t chained) {
  // Kernels for blocked images compute whole blocks of channels, padding included; those for NHWC
  // do not.
  const bool blocked = !take_apart(v.actual[kDestination]).inner_blocks.empty();
  const MemoryParts weights = take_apart(v.actual[kWeights]);
  double multiply_adds = static_cast<double>(p.out_h * p.out_w);
  for (const int64_t d : blocked ? weights.padded_dims : weights.dims) {
    multiply_adds *= static_cast<double>(d);
  }
  multiply_adds *= static_cast<double>(take_apart(v.actual[kSource]).dims[0]);
  const auto contains = [&](std::string_view text) {
    return v.name.find(text) != std::string::npos;
  };
  double rate = blocked ? 0.95 : 0.72;
  if (contains("ref")) rate = 0.01;
  if (contains("gemm")) rate = 0.5;
  if (v.algorithm == kWinograd) {
    const auto round4 = [](int64_t n) { return (n + 3) / 4 * 4; };
    rate = 2.2 * static_cast<double>(p.out_h * p.out_w) /
           static_cast<double>(round4(p.out_h) * round4(p.out_w));
  }
  double bytes = 0;
  for (const MemoryDesc& md : v.actual) bytes += static_cast<double>(md.get_size());
  bytes += 2.0 * chained * static_cast<double>(v.actual[kDestination].get_size());
  const double peak = engine.peak_flops_per_ns() * (p.bfloat16 ? engine.bfloat16_speed() : 1.0);
  const double compute = 2.0 * multiply_adds / (rate * peak);
  const uint64_t moved = moved_bytes(p, v);
  return 3000.0 + std::max(compute, bytes / engine.bytes_per_ns()) +
         (moved ? reorder_ns(engine, moved) : 0.0);
}

bool residual_is_verified(const ConvolutionProblem& p, const ConvolutionVariant& v) {
  const bool binary = !v.post.binary_inputs.empty(), sum = v.post.sum_input >= 0;
  const Residual residual = binary ? Residual::kBinary : sum ? Residual::kSum : Residual::kNone;
  const Axis rows{p.in_h,          p.out_h, p.kernel_h, p.window.stride_h, p.window.dilation_h,
                  p.window.pad_top};
  const Axis columns{p.in_w,           p.out_w, p.kernel_w, p.window.stride_w, p.window.dilation_w,
                     p.window.pad_left};
  return adds_residual_rightly(v.desc.impl_info_str(), residual, rows, columns);
}

Role output_role(const ConvolutionProblem& p) {
  return p.pass == Pass::kForward        ? kDestination
         : p.pass == Pass::kBackwardData ? kSource
                                         : kWeights;
}

// As describe_with_post_ops, in bfloat16: only a bias becomes part of the primitive, because no
// search has found which implementations add residuals rightly.
bool describe_bfloat16(const OnednnContext& context, const Operation& op,
                       const ConvolutionProblem& p, const Descs& m, ConvolutionVariant& v) {
  v.post = PrimitivePostOps{};
  if (p.pass == Pass::kForward) v.post = primitive_post_ops(op, m[kDestination], Residual::kNone);
  v.wide = !commutes_with_rounding(op, v.post.taken);
  Descs wide = m;
  if (v.wide) {
    const MemoryParts parts = take_apart(p.canonical[output_role(p)]);
    wide[output_role(p)] = strided_desc(parts.dims, parts.strides);
  }
  return describe(context, p, wide, default_attributes(), v.post.bias_input >= 0, v);
}

// Describes the primitive with as many post-operations inside it as possible.
bool describe_with_post_ops(const OnednnContext& context, const Operation& op,
                            const ConvolutionProblem& p, const Descs& m, ConvolutionVariant& v) {
  if (p.bfloat16) return describe_bfloat16(context, op, p, m, v);
  if (p.pass != Pass::kForward || op.post_op_count() == 0) {
    v.post = PrimitivePostOps{};
    return describe(context, p, m, default_attributes(), false, v);
  }
  // The operand of a binary post-operation needs the final layout of the output.
  Descs fixed = m;
  if (!describe(context, p, m, default_attributes(), false, v)) return false;
  fixed[kDestination] = v.actual[kDestination];
  const std::string plain_name = v.desc.impl_info_str();
  for (const Residual residual : {Residual::kBinary, Residual::kSum, Residual::kNone}) {
    v.post = primitive_post_ops(op, fixed[kDestination], residual);
    const bool bias = v.post.bias_input >= 0;
    if (describe(context, p, fixed, v.post.attributes, bias, v) &&
        plain_name == v.desc.impl_info_str() && residual_is_verified(p, v)) {
      return true;
    }
  }
  v.post = PrimitivePostOps{};
  return describe(context, p, fixed, default_attributes(), false, v);
}

// `choice[role]` lets oneDNN choose the layout of that operand; if the operand is canonical, the
// plan then reorders it.
std::optional<ConvolutionVariant> make_variant(const OnednnContext& context, const Operation& op,
                                               const ConvolutionProblem& p, uint32_t algorithm,
                                               const std::array<bool, kRoles>& choice) {
  Descs m;
  for (size_t role = 0; role < kRoles; ++role) {
    const uint64_t given = p.layouts[role];
    if (given == RT_LAYOUT_CANONICAL || given == RT_LAYOUT_ANY) {
      m[role] = choice[role] ? any_desc(p.canonical[role]) : p.canonical[role];
    } else {  // never chosen; the id may also belong to another provider
      const Layout* layout = context.layouts.find(given);
      if (layout == nullptr || !same_memory(layout->canonical, p.canonical[role])) {
        return std::nullopt;
      }
      m[role] = layout->foreign;
    }
  }
  ConvolutionVariant v;
  v.algorithm = algorithm;
  if (!describe_with_post_ops(context, op, p, m, v)) return std::nullopt;
  for (size_t role = 0; role < kRoles; ++role) {
    if (v.wide && role == output_role(p)) continue;  // canonical
    v.layouts[role] = p.layouts[role] == RT_LAYOUT_ANY
                          ? context.layouts.add(v.actual[role], p.canonical[role])
                          : p.layouts[role];
  }
  const std::string implementation = v.desc.impl_info_str();
  v.slow_reference = implementation.find("ref") != std::string::npos;
  v.name =
      "onednn:" + std::string(algorithm == kWinograd ? "winograd:" : "direct:") + implementation;
  v.estimated_ns = estimate(context.engine, p, v, op.post_op_count() - v.post.taken);
  return v;
}

bool wants_winograd(const OnednnContext& context, const ConvolutionProblem& p) {
  return context.engine.winograd() && !p.bfloat16 && p.kernel_h == 3 && p.kernel_w == 3 &&
         p.strides == Dims{1, 1} && p.dilates == Dims{0, 0} &&
         (p.pass != Pass::kBackwardData || winograd_data_gradient_is_right(p.window));
}

void add_unless_known(std::vector<ConvolutionVariant>& variants, ConvolutionVariant variant) {
  for (const ConvolutionVariant& known : variants) {
    if (known.algorithm == variant.algorithm && known.layouts == variant.layouts) return;
  }
  variants.push_back(std::move(variant));
}

// What a variant may be: whether oneDNN chooses the layouts of the two images (see make_variant),
// and whether its reference kernels, which are slow, are accepted.
struct Freedom {
  bool source = false, destination = false, reference = false;
};

std::vector<ConvolutionVariant> convolution_variants(const OnednnContext& context,
                                                     const Operation& op,
                                                     const ConvolutionProblem& p) {
  std::vector<ConvolutionVariant> found;
  const bool foreign_weights =
      p.layouts[kWeights] != RT_LAYOUT_CANONICAL && p.layouts[kWeights] != RT_LAYOUT_ANY;
  const auto attempt = [&](uint32_t algorithm, const Freedom& may) {
    auto v =
        make_variant(context, op, p, algorithm, {may.source, !foreign_weights, may.destination});
    if (v && (may.reference || !v->slow_reference)) add_unless_known(found, std::move(*v));
  };
  for (const uint32_t algorithm : {kDirect, kWinograd}) {
    if (algorithm == kWinograd && !wants_winograd(context, p)) continue;
    for (const bool source : {false, true}) {
      for (const bool destination : {false, true}) {
        // In bfloat16, images are in NHWC, which the kernels for the matrix unit prefer as well.
        if (p.bfloat16 && (source || destination)) continue;
        if (source && p.layouts[kSource] != RT_LAYOUT_ANY) continue;
        if (destination && p.layouts[kDestination] != RT_LAYOUT_ANY) continue;
        attempt(algorithm, {.source = source, .destination = destination});
      }
    }
  }
  // If only reference kernels take these layouts, reorder every operand inside the plan. If oneDNN
  // has no kernel for that either, accept the reference kernel.
  const auto direct = [](const ConvolutionVariant& v) { return v.algorithm == kDirect; };
  const auto have_direct = [&] { return std::any_of(found.begin(), found.end(), direct); };
  if (!have_direct()) attempt(kDirect, {.source = true, .destination = true});
  if (!have_direct()) attempt(kDirect, {.reference = true});
  return found;
}

std::optional<ChannelOrder> output_channels(const OnednnContext& context, const Operation& op,
                                            const ConvolutionProblem& p,
                                            const ConvolutionVariant& v) {
  rt_tensor_desc output = op.output(0);
  output.layout = v.layouts[output_role(p)];
  return context.engine.channel_order(output);
}

// The post-operations that are fused: PostChain applies those that the primitive does not.
uint32_t fused_prefix(const OnednnContext& context, const Operation& op,
                      const ConvolutionProblem& p, const ConvolutionVariant& v) {
  return chain_prefix(op, output_channels(context, op, p, v), v.post.taken);
}

Candidate to_candidate(const Operation& op, const ConvolutionProblem& p,
                       const ConvolutionVariant& v) {
  Candidate c;
  c.algorithm = v.algorithm;
  c.estimated_ns = v.estimated_ns;
  c.implementation = v.name;
  for (size_t role = 0; role < kRoles; ++role) {
    const auto [kind, index] = p.operands[role];
    (kind == Slot::Kind::kInput ? c.input_layouts[index] : c.output_layouts[index]) =
        v.layouts[role];
  }
  // Operands shaped like the output have its layout.
  for (uint32_t i = 0; i < op.post_op_count(); ++i) {
    const rt_post_op& post = op.post_op(i);
    if (post.operand >= 0 && post.kind != RT_POST_BIAS) {
      c.input_layouts[static_cast<size_t>(post.operand)] = c.output_layouts[0];
    }
  }
  return c;
}

bool respects_operands(const Operation& op, const Candidate& c) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    const uint64_t given = op.input(i).layout;
    if (given != RT_LAYOUT_ANY && given != c.input_layouts[i]) return false;
  }
  return true;
}

void add_bindings(const OnednnContext& context, PrimitivePlan& plan, const Operation& op,
                  const ConvolutionProblem& p, const ConvolutionVariant& v) {
  constexpr int kArguments[3][kRoles] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                         {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                         {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
  std::vector<std::pair<int, size_t>> arguments;
  std::pair<size_t, size_t> move_out{0, 0};
  bool moves_out = false;
  for (size_t role = 0; role < kRoles; ++role) {
    const auto [kind, index] = p.operands[role];
    const bool wide = v.wide && role == output_role(p);
    const bool internal = !wide && v.layouts[role] == RT_LAYOUT_CANONICAL &&
                          !same_memory(v.actual[role], p.canonical[role]);
    size_t memory = wide ? plan.wide_output(v.actual[role])
                         : plan.operand(internal ? p.canonical[role] : v.actual[role], kind, index);
    if (internal) {
      const size_t inside = plan.temporary(v.actual[role]);
      if (kind == Slot::Kind::kInput) plan.reorder(memory, inside);
      if (kind == Slot::Kind::kOutput) move_out = {inside, memory}, moves_out = true;
      memory = inside;
    }
    arguments.emplace_back(kArguments[static_cast<size_t>(p.pass)][role], memory);
  }
  const MemoryDesc vector = vector_desc(p);
  if (v.post.bias_input >= 0) {
    arguments.emplace_back(DNNL_ARG_BIAS, plan.operand(vector, Slot::Kind::kInput,
                                                       static_cast<uint32_t>(v.post.bias_input)));
  }
  if (p.bias_gradient) {
    arguments.emplace_back(DNNL_ARG_DIFF_BIAS, plan.operand(vector, Slot::Kind::kOutput, 1));
  }
  for (size_t i = 0; i < v.post.binary_inputs.size(); ++i) {
    const size_t memory = plan.operand(v.actual[kDestination], Slot::Kind::kInput,
                                       static_cast<uint32_t>(v.post.binary_inputs[i]));
    arguments.emplace_back(
        DNNL_ARG_ATTR_MULTIPLE_POST_OP(v.post.binary_positions[i]) | DNNL_ARG_SRC_1, memory);
  }
  if (p.bfloat16) plan.set_narrow();
  plan.step(dnnl::primitive(v.desc.get()), v.desc.scratchpad_desc(), arguments);
  if (moves_out) plan.reorder(move_out.first, move_out.second);
  if (v.post.sum_input >= 0) {
    plan.preload_output(static_cast<uint32_t>(v.post.sum_input), v.actual[kDestination].get_size());
  }
  if (v.post.taken < op.post_op_count()) {
    const Role output = output_role(p);
    const uint64_t bytes = v.layouts[output] == RT_LAYOUT_CANONICAL ? p.canonical[output].get_size()
                                                                    : v.actual[output].get_size();
    plan.finish_with(PostChain(op, output_channels(context, op, p, v), v.post.taken),
                     static_cast<int64_t>(bytes / rt::sdk::dtype_bytes(op.output(0).dtype)));
  }
}

// Post-operations of the primitive read their operands in the layout of the output as the caller
// sees it. So an output that is reordered inside the plan excludes them.
bool usable(const Operation& op, const ConvolutionProblem& p, const ConvolutionVariant& v) {
  const bool output_moves = v.layouts[kDestination] == RT_LAYOUT_CANONICAL &&
                            !same_memory(v.actual[kDestination], p.canonical[kDestination]);
  return !(p.pass == Pass::kForward && output_moves &&
           (!v.post.binary_inputs.empty() || v.post.sum_input >= 0) && op.post_op_count() > 0);
}

// A convolution in bfloat16 that oneDNN would get wrong is done on copies in float32.
bool must_be_wide(const Operation& op) {
  return op.input(0).dtype == RT_BFLOAT16 && !bfloat16_convolution_is_right(op);
}

Answer query_wide(const OnednnContext& context, const Operation& op) {
  Answer answer;
  if (const int32_t operand = foreign_operand(op); operand >= 0) {
    answer.reason_operand = operand;
    answer.reason = std::string(op.name()) +
                    ": with dilation, or where outputs or taps see padding only, every operand in "
                    "bfloat16 must have the canonical layout";
    return answer;
  }
  const WideOperation wide(op);
  answer = query_convolution(context, Operation(wide.desc()));
  for (Candidate& c : answer.candidates) c.implementation = "bfloat16:widened:" + c.implementation;
  return answer;
}

std::unique_ptr<Plan> create_wide(const OnednnContext& context, const Operation& op,
                                  uint32_t algorithm) {
  if (foreign_operand(op) >= 0) return nullptr;
  const WideOperation wide(op);
  return std::make_unique<WidenedPlan>(
      context.engine, op, create_convolution(context, Operation(wide.desc()), algorithm));
}

}  // namespace

Answer query_convolution(const OnednnContext& context, const Operation& op) {
  if (must_be_wide(op)) return query_wide(context, op);
  check_post_ops(op);
  const ConvolutionProblem p = parse_convolution(op);
  Answer answer;
  answer.post_ops_fused = op.post_op_count();
  answer.tolerance = 2e-5;
  for (const ConvolutionVariant& v : convolution_variants(context, op, p)) {
    const Candidate candidate = to_candidate(op, p, v);
    if (!usable(op, p, v) || !respects_operands(op, candidate)) continue;
    answer.post_ops_fused = std::min(answer.post_ops_fused, fused_prefix(context, op, p, v));
    if (v.algorithm == kWinograd) answer.tolerance = 5e-4;
    answer.candidates.push_back(candidate);
  }
  answer.level = answer.candidates.empty() ? RT_SUPPORT_REFUSED : RT_SUPPORT_NATIVE;
  if (answer.candidates.empty()) {
    answer.reason = std::string(op.name()) +
                    ": oneDNN has no convolution for these layouts; nearest supported: the "
                    "canonical layout for every operand";
  }
  return answer;
}

std::unique_ptr<Plan> create_convolution(const OnednnContext& context, const Operation& op,
                                         uint32_t algorithm) {
  if (must_be_wide(op)) return create_wide(context, op, algorithm);
  check_post_ops(op);
  const ConvolutionProblem p = parse_convolution(op);
  const uint32_t wanted = algorithm == 0 ? kDirect : algorithm;
  for (const ConvolutionVariant& v : convolution_variants(context, op, p)) {
    if (v.algorithm != wanted || !usable(op, p, v)) continue;
    check_prefix(op, fused_prefix(context, op, p, v));
    auto plan = std::make_unique<PrimitivePlan>(context.engine, context.onednn, v.name);
    add_bindings(context, *plan, op, p, v);
    return plan;
  }
  if (algorithm == 0) return nullptr;
  throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                       rt::sdk::format("%s: algorithm %u does not exist for these layouts; create "
                                       "only what a query listed",
                                       op.desc().name, algorithm));
}

}  // namespace backends::cpu
