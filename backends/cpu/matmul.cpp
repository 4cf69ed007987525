// Matrix products by oneDNN: its primitive and its sgemm, in canonical and in packed layouts.
#include <algorithm>
#include <vector>

#include "backends/cpu/native.h"
#include "backends/cpu/onednn_provider.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/primitive_plan.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

// kPlain is oneDNN's matmul primitive. kGemm is dnnl_sgemm, which packs both operands while it runs
// and so is faster on canonical operands, above all where a is transposed; it fuses nothing.
constexpr uint32_t kPlain = 1, kGemm = 2;

// The matrices a, b and c as oneDNN describes them. All have the same rank.
struct MatmulProblem {
  MemoryDesc a, b, c;
  bool shared_b = false;  // b is 2-D and may be packed
  double multiply_adds = 0;
  int64_t columns = 0;
  size_t rank = 2;
  bool transpose_a = false, transpose_b = false;
  bool bfloat16 = false;  // a and b are
};

Dims dense_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
  return strides;
}

// The operand as [batch..., rows, columns], after the transposition that its attribute asks for.
MemoryDesc matrix(const Dims& stored, bool transposed, const rt_tensor_desc& tensor) {
  Dims dims = stored, strides = dense_strides(stored);
  if (transposed) {
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    std::swap(strides[dims.size() - 1], strides[dims.size() - 2]);
  }
  return strided_desc(dims, strides, onednn_type(tensor));
}

Dims dims_of(const rt_tensor_desc& t) { return Dims(t.dims, t.dims + t.rank); }

// [leading..., r, c] with the leading dimensions merged into one, because oneDNN's matmul takes few
// dimensions.
Dims collapse(const Dims& dims) {
  if (dims.size() <= 3) return dims;
  int64_t batch = 1;
  for (size_t i = 0; i + 2 < dims.size(); ++i) batch *= dims[i];
  return {batch, dims[dims.size() - 2], dims[dims.size() - 1]};
}

[[noreturn]] void refuse_shapes(const Operation& op) {
  op.fail("shapes do not fit: a " + rt::sdk::to_string(op.input(0)) + ", b " +
          rt::sdk::to_string(op.input(1)) + ", c " + rt::sdk::to_string(op.output(0)) +
          "; expected [...,M,K] [...,K,N] -> [...,M,N] after transpositions");
}

void check_matmul_types(const Operation& op) {
  const rt_dtype a = op.input(0).dtype, c = op.output(0).dtype;
  if (op.input(1).dtype == a && (c == a || (a == RT_BFLOAT16 && c == RT_FLOAT32))) return;
  op.fail("types do not fit: a " + rt::sdk::to_string(op.input(0)) + ", b " +
          rt::sdk::to_string(op.input(1)) + ", c " + rt::sdk::to_string(op.output(0)) +
          "; expected one type, or bfloat16 a and b with a float32 c");
}

void check_shapes(const Operation& op, const MemoryDesc& a, const MemoryDesc& b,
                  const MemoryDesc& c) {
  const Dims x = take_apart(a).dims, y = take_apart(b).dims, z = take_apart(c).dims;
  const size_t r = z.size();
  const bool fits = x.size() == r && y.size() == r && x[r - 1] == y[r - 2] &&
                    x[r - 2] == z[r - 2] && y[r - 1] == z[r - 1] &&
                    (r == 2 || (x[0] == z[0] && (y[0] == z[0] || y[0] == 1)));
  if (!fits) refuse_shapes(op);
}

MatmulProblem parse_matmul(const Operation& op) {
  check_matmul_types(op);
  const bool ta = op.integer(RT_ATTR_TRANSPOSE_A, 0) != 0;
  const bool tb = op.integer(RT_ATTR_TRANSPOSE_B, 0) != 0;
  Dims a = dims_of(op.input(0)), b = dims_of(op.input(1)), c = dims_of(op.output(0));
  if (a.size() < 2 || b.size() < 2 || c.size() != a.size()) refuse_shapes(op);
  if (b.size() > 2 && (b.size() != a.size() || !std::equal(a.begin(), a.end() - 2, b.begin()))) {
    refuse_shapes(op);
  }
  if (!std::equal(a.begin(), a.end() - 2, c.begin())) refuse_shapes(op);
  MatmulProblem p;
  p.shared_b = b.size() == 2 && (a.size() == 2 || !ta);
  if (p.shared_b && a.size() > 2) {  // the rows of all batches as one matrix
    const auto flatten = [](const Dims& d) {
      int64_t rows = 1;
      for (size_t i = 0; i + 1 < d.size(); ++i) rows *= d[i];
      return Dims{rows, d.back()};
    };
    a = flatten(a), c = flatten(c);
  }
  a = collapse(a), b = collapse(b), c = collapse(c);
  if (a.size() > b.size()) b.insert(b.begin(), 1);
  p.bfloat16 = op.input(0).dtype == RT_BFLOAT16;
  p.a = matrix(a, ta, op.input(0)), p.b = matrix(b, tb, op.input(1));
  p.c = matrix(c, false, op.output(0));
  check_shapes(op, p.a, p.b, p.c);
  p.rank = c.size();
  p.columns = c.back();
  p.transpose_a = ta, p.transpose_b = tb;
  p.multiply_adds = static_cast<double>(take_apart(p.a).dims.back());
  for (const int64_t d : c) p.multiply_adds *= static_cast<double>(d);
  return p;
}

struct MatmulVariant {
  dnnl::primitive_desc_base desc;
  MemoryDesc b;
  uint64_t layout = RT_LAYOUT_CANONICAL;
  PrimitivePostOps post;
  // The primitive writes c in float32, so that it is rounded to bfloat16 only after the chain.
  bool wide = false;
  MemoryDesc c;
};

MemoryDesc bias_desc(const MatmulProblem& p) {
  Dims dims(p.rank, 1);
  dims.back() = p.columns;
  return strided_desc(dims, dense_strides(dims), take_apart(p.c).type);
}

// c in float32.
MemoryDesc wide_desc(const MemoryDesc& c) {
  const MemoryParts parts = take_apart(c);
  return strided_desc(parts.dims, parts.strides);
}

// `b` is the description that the weights have, or one of the format "any".
std::optional<MatmulVariant> describe(const OnednnContext& context, const Operation& op,
                                      const MatmulProblem& p, const MemoryDesc& b) {
  for (const Residual residual : {Residual::kBinary, Residual::kSum, Residual::kNone}) {
    MatmulVariant v;
    v.post = primitive_post_ops(op, p.c, residual);
    v.wide = op.output(0).dtype == RT_BFLOAT16 && !commutes_with_rounding(op, v.post.taken);
    if (v.wide && v.post.sum_input >= 0) continue;
    v.c = v.wide ? wide_desc(p.c) : p.c;
    const auto desc =
        make_desc<dnnl::matmul>(context.onednn, v.post.attributes, p.a, b,
                                v.post.bias_input >= 0 ? bias_desc(p) : MemoryDesc(), v.c);
    if (!exists(desc)) continue;
    const bool reference = std::string(desc.impl_info_str()).find("ref") != std::string::npos;
    if (reference && residual != Residual::kNone) continue;
    // The description is a handle, which the base class holds.
    // NOLINTNEXTLINE(cppcoreguidelines-slicing)
    v.desc = desc;
    v.b = desc.weights_desc();
    v.layout = context.layouts.add(v.b, p.b);
    return v;
  }
  return std::nullopt;
}

// Nanoseconds of the pass over c that applies the post-operations that are not fused.
double chain_ns(const Engine& engine, const Operation& op, const MatmulProblem& p, uint32_t fused) {
  return fused < op.post_op_count()
             ? 2.0 * static_cast<double>(p.c.get_size()) / engine.bytes_per_ns()
             : 0.0;
}

double estimate_gemm(const Engine& engine, const Operation& op, const MatmulProblem& p) {
  const double bytes = static_cast<double>(p.a.get_size() + p.b.get_size() + p.c.get_size());
  return 4000.0 + chain_ns(engine, op, p, 0) +
         std::max(2.0 * p.multiply_adds / (0.84 * engine.peak_flops_per_ns()),
                  bytes / engine.bytes_per_ns());
}

double estimate(const Engine& engine, const Operation& op, const MatmulProblem& p,
                const MatmulVariant& v) {
  const bool reference = std::string(v.desc.impl_info_str()).find("ref") != std::string::npos;
  const double rate = reference ? 0.01 : v.layout == RT_LAYOUT_CANONICAL ? 0.75 : 0.85;
  const double peak = engine.peak_flops_per_ns() * (p.bfloat16 ? engine.bfloat16_speed() : 1.0);
  const double compute = 2.0 * p.multiply_adds / (rate * peak);
  const double bytes = static_cast<double>(p.a.get_size() + v.b.get_size() + p.c.get_size());
  return 2000.0 + chain_ns(engine, op, p, v.post.taken) +
         std::max(compute, bytes / engine.bytes_per_ns());
}

std::vector<MatmulVariant> matmul_variants(const OnednnContext& context, const Operation& op,
                                           const MatmulProblem& p) {
  std::vector<MatmulVariant> found;
  const uint64_t given = op.input(1).layout;
  const auto add = [&](const MemoryDesc& b) {
    auto v = describe(context, op, p, b);
    if (!v) return;
    for (const MatmulVariant& known : found) {
      if (known.layout == v->layout) return;
    }
    found.push_back(std::move(*v));
  };
  if (given == RT_LAYOUT_CANONICAL || given == RT_LAYOUT_ANY) add(p.b);
  if (given == RT_LAYOUT_ANY && p.shared_b) {
    const MemoryParts parts = take_apart(p.b);
    add(MemoryDesc(parts.dims, parts.type, dnnl::memory::format_tag::any));
  }
  if (given != RT_LAYOUT_CANONICAL && given != RT_LAYOUT_ANY) {
    const Layout* layout = context.layouts.find(given);
    if (layout != nullptr && same_memory(layout->canonical, p.b)) add(layout->foreign);
  }
  return found;
}

bool gemm_takes(const Operation& op, const MatmulProblem& p) {
  const uint64_t b = op.input(1).layout;
  return !p.bfloat16 && p.rank == 2 && (b == RT_LAYOUT_CANONICAL || b == RT_LAYOUT_ANY);
}

std::unique_ptr<Plan> create_gemm(const OnednnContext& context, const Operation& op,
                                  const MatmulProblem& p) {
  const Dims a = take_apart(p.a).dims;
  const int64_t m = a[0], k = a[1], n = p.columns;
  const PostChain chain(op, ChannelOrder::innermost(n));
  const bool ta = p.transpose_a, tb = p.transpose_b;
  auto body = [=, threads = context.engine.threads(),
               &kernel = context.engine.kernels()](const rt_launch& l) {
    float* c = output<float>(l, 0);
    const dnnl_status_t status =
        dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0f, input<float>(l, 0), ta ? m : k,
                   input<float>(l, 1), tb ? k : n, 0.0f, c, n);
    if (status != dnnl_success) {
      throw rt::sdk::Error(RT_ERROR_DEVICE, rt::sdk::format("dnnl_sgemm: oneDNN status %d",
                                                            static_cast<int>(status)))
          .native("oneDNN", status);
    }
    if (chain.empty()) return;
    parallel_parts(threads, m * n, kElementGrain, 16, [&](int, int64_t begin, int64_t end) {
      chain.apply(kernel, c + begin, begin, end - begin, l.inputs);
    });
  };
  return std::make_unique<FunctionPlan<decltype(body)>>("onednn:sgemm", std::move(body));
}

bool others_canonical(const Operation& op) {
  const auto plain = [](uint64_t layout) {
    return layout == RT_LAYOUT_CANONICAL || layout == RT_LAYOUT_ANY;
  };
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (i != 1 && !plain(op.input(i).layout)) return false;
  }
  return plain(op.output(0).layout);
}

}  // namespace

Answer query_matmul(const OnednnContext& context, const Operation& op) {
  check_post_ops(op);
  const MatmulProblem p = parse_matmul(op);
  Answer answer;
  // c is canonical, so PostChain can apply whatever the primitive does not.
  answer.post_ops_fused = op.post_op_count();
  if (others_canonical(op)) {
    for (const MatmulVariant& v : matmul_variants(context, op, p)) {
      Candidate c;
      c.algorithm = kPlain;
      c.estimated_ns = estimate(context.engine, op, p, v);
      c.implementation = std::string("onednn:matmul:") + v.desc.impl_info_str();
      c.input_layouts[1] = v.layout;
      answer.candidates.push_back(std::move(c));
    }
    if (gemm_takes(op, p)) {
      Candidate c;
      c.algorithm = kGemm;
      c.estimated_ns = estimate_gemm(context.engine, op, p);
      c.implementation = "onednn:sgemm";
      answer.candidates.push_back(std::move(c));
    }
  }
  answer.level = answer.candidates.empty() ? RT_SUPPORT_REFUSED : RT_SUPPORT_NATIVE;
  if (answer.candidates.empty()) {
    answer.reason =
        "matmul: only operand b may have a foreign layout, one that a query of this "
        "matmul offered";
  }
  return answer;
}

std::unique_ptr<Plan> create_matmul(const OnednnContext& context, const Operation& op,
                                    uint32_t algorithm) {
  check_post_ops(op);
  const MatmulProblem p = parse_matmul(op);
  if (algorithm == kGemm && gemm_takes(op, p) && others_canonical(op)) {
    return create_gemm(context, op, p);
  }
  auto found = matmul_variants(context, op, p);
  if (found.empty() || !others_canonical(op)) {
    if (algorithm == 0) return nullptr;
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                         "matmul: this algorithm does not exist for these layouts; create only "
                         "what a query listed");
  }
  const MatmulVariant& v = found.front();
  auto plan = std::make_unique<PrimitivePlan>(
      context.engine, context.onednn, std::string("onednn:matmul:") + v.desc.impl_info_str());
  constexpr auto in = Slot::Kind::kInput;
  std::vector<std::pair<int, size_t>> arguments = {
      {DNNL_ARG_SRC, plan->operand(p.a, in, 0)},
      {DNNL_ARG_WEIGHTS, plan->operand(v.b, in, 1)},
      {DNNL_ARG_DST, v.wide ? plan->wide_output(v.c) : plan->operand(p.c, Slot::Kind::kOutput, 0)}};
  if (op.output(0).dtype == RT_BFLOAT16) plan->set_narrow();
  if (v.post.bias_input >= 0) {
    arguments.emplace_back(
        DNNL_ARG_BIAS, plan->operand(bias_desc(p), in, static_cast<uint32_t>(v.post.bias_input)));
  }
  for (size_t i = 0; i < v.post.binary_inputs.size(); ++i) {
    arguments.emplace_back(
        DNNL_ARG_ATTR_MULTIPLE_POST_OP(v.post.binary_positions[i]) | DNNL_ARG_SRC_1,
        plan->operand(p.c, in, static_cast<uint32_t>(v.post.binary_inputs[i])));
  }
  plan->step(dnnl::primitive(v.desc.get()), v.desc.scratchpad_desc(), arguments);
  if (v.post.sum_input >= 0) {
    plan->preload_output(static_cast<uint32_t>(v.post.sum_input), p.c.get_size());
  }
  if (v.post.taken < op.post_op_count()) {
    plan->finish_with(PostChain(op, ChannelOrder::innermost(p.columns), v.post.taken),
                      rt::sdk::element_count(op.output(0)));
  }
  return plan;
}

}  // namespace backends::cpu
