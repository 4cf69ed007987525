#include "backends/cpu/products/provider.h"

#include <algorithm>
#include <functional>
#include <string>

#include "backends/cpu/post_chain.h"
#include "backends/cpu/products/product.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

constexpr uint32_t kFloat = 1, kSplit = 2;  // the algorithms

// A matmul as one product of two matrices.
struct Problem {
  products::Sizes sizes;
  bool transpose_a, transpose_b;
};

bool canonical(const rt_tensor_desc& tensor) {
  return tensor.layout == RT_LAYOUT_CANONICAL || tensor.layout == RT_LAYOUT_ANY;
}

bool all_canonical(const Operation& op) {
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (!canonical(op.input(i))) return false;
  }
  return canonical(op.output(0));
}

int64_t rows_of(const rt_tensor_desc& t) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < t.rank; ++i) rows *= t.dims[i];
  return rows;
}

// The matmul as one product, with the rows of all batches as one matrix; empty if it is none, or if
// a dimension is 0. The provider that is asked first has checked the shapes (matmul.cpp).
std::optional<Problem> parse(const Operation& op) {
  if (!op.is(RT_OP_MATMUL) || op.own_input_count() != 2 || op.output_count() != 1 ||
      !all_canonical(op))
    return std::nullopt;
  const rt_tensor_desc &a = op.input(0), &b = op.input(1), &c = op.output(0);
  const bool ta = op.integer(RT_ATTR_TRANSPOSE_A, 0) != 0,
             tb = op.integer(RT_ATTR_TRANSPOSE_B, 0) != 0;
  if (a.rank < 2 || b.rank != 2 || c.rank != a.rank || (ta && a.rank != 2)) return std::nullopt;
  const int64_t depth = ta ? a.dims[0] : a.dims[a.rank - 1];
  const products::Sizes sizes{rows_of(c), c.dims[c.rank - 1], depth};
  const bool fits = (ta ? a.dims[1] : rows_of(a)) == sizes.rows && b.dims[tb ? 1 : 0] == depth &&
                    b.dims[tb ? 0 : 1] == sizes.columns;
  if (!fits || sizes.rows == 0 || sizes.columns == 0 || depth == 0) return std::nullopt;
  return Problem{sizes, ta, tb};
}

class ProductPlan : public Plan {
 public:
  ProductPlan(const Engine& engine, const Operation& op, const Problem& p,
              const products::KernelTable& kernels)
      : engine_(engine),
        problem_(p),
        product_(kernels, products::kernels_for(engine.isa()), p.sizes, engine.threads()),
        chain_(op, ChannelOrder::innermost(p.sizes.columns)) {
    info_.implementation = std::string("native:product:") + kernels.name;
    info_.workspace_bytes = product_.workspace_bytes();
  }

  void launch(const rt_launch& l) override {
    engine_.bind_calling_thread();
    const products::Sizes& s = problem_.sizes;
    const auto matrix = [](const void* data, int64_t columns, int64_t rows, bool transposed) {
      const products::Matrix stored{static_cast<const float*>(data), transposed ? rows : columns,
                                    1};
      return transposed ? stored.transposed() : stored;
    };
    auto* c = static_cast<float*>(l.outputs[0]);
    products::Finish finish;
    const auto apply = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
      for (int64_t r = row; r < row + rows; ++r) {
        const int64_t offset = r * s.columns + column;
        chain_.apply(engine_.kernels(), c + offset, offset, columns, l.inputs);
      }
    };
    if (!chain_.empty()) finish = std::cref(apply);
    product_.run(matrix(l.inputs[0], s.depth, s.rows, problem_.transpose_a),
                 matrix(l.inputs[1], s.columns, s.depth, problem_.transpose_b), c, l.workspace,
                 finish);
  }

 private:
  const Engine& engine_;
  Problem problem_;
  products::Product product_;
  PostChain chain_;
};

double estimate(const Engine& engine, const Problem& p, double rate) {
  const auto rows = static_cast<double>(p.sizes.rows),
             columns = static_cast<double>(p.sizes.columns),
             depth = static_cast<double>(p.sizes.depth);
  const double bytes = 4.0 * (rows * depth + depth * columns + rows * columns);
  return 3000.0 + std::max(2.0 * rows * columns * depth / (rate * engine.peak_flops_per_ns()),
                           bytes / engine.bytes_per_ns());
}

}  // namespace

ProductProvider::ProductProvider(const Engine& engine) : engine_(engine) {
  if (engine.bf16x3() && engine.isa() == Isa::kAvx512) split_ = products::split_kernels();
}

Answer ProductProvider::query(const Operation& op) {
  Answer answer;
  const std::optional<Problem> problem = parse(op);
  if (!problem) return answer;
  check_post_ops(op);
  answer.level = RT_SUPPORT_NATIVE;
  answer.post_ops_fused = op.post_op_count();
  const auto offer = [&](uint32_t algorithm, const products::KernelTable& kernels, double rate) {
    Candidate c;
    c.algorithm = algorithm;
    c.estimated_ns = estimate(engine_, *problem, rate);
    c.implementation = std::string("native:product:") + kernels.name;
    answer.candidates.push_back(std::move(c));
  };
  offer(kFloat, products::kernels_for(engine_.isa()), 0.83);
  if (split_ != nullptr) offer(kSplit, *split_, 1.3);
  return answer;
}

std::unique_ptr<Plan> ProductProvider::create(const Operation& op, uint32_t algorithm) {
  if (algorithm == 0) return nullptr;  // another provider serves every matmul
  const std::optional<Problem> problem = parse(op);
  if (!problem || algorithm > kSplit || (algorithm == kSplit && split_ == nullptr)) {
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                         "matmul: this algorithm does not exist for these operands; create only "
                         "what a query listed");
  }
  check_post_ops(op);
  const products::KernelTable& kernels =
      algorithm == kSplit ? *split_ : products::kernels_for(engine_.isa());
  return std::make_unique<ProductPlan>(engine_, op, *problem, kernels);
}

}  // namespace backends::cpu
