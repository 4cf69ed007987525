// This provider has matmul in float32 by our own kernels, in float32 or as sums of bfloat16 parts.
#include "backends/cpu/products/provider.h"

#include <algorithm>
#include <functional>
#include <string>

#include "backends/cpu/matrix_product.h"
#include "backends/cpu/post_chain.h"
#include "backends/cpu/products/product.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

constexpr uint32_t kFloat = 1, kSplit = 2;  // the algorithms

// The matmul as one product; empty if this provider does not serve it. The provider that is asked
// first has checked the shapes (matmul.cpp).
std::optional<MatrixProduct> parse_product(const Operation& op) {
  if (op.output_count() != 1 || foreign_operand(op) >= 0) return std::nullopt;
  return as_one_product(op);
}

class ProductPlan : public Plan {
 public:
  ProductPlan(const Engine& engine, const Operation& op, const MatrixProduct& p,
              const products::KernelTable& kernels)
      : engine_(engine),
        problem_(p),
        product_(kernels, products::kernels_for(engine.isa()), {p.rows, p.columns, p.depth},
                 engine.threads()),
        chain_(op, ChannelOrder::innermost(p.columns)) {
    info_.implementation = std::string("native:product:") + kernels.name;
    info_.workspace_bytes = product_.workspace_bytes();
  }

  void launch(const rt_launch& l) override {
    const MatrixProduct& p = problem_;
    const auto matrix = [](const void* data, int64_t columns, int64_t rows, bool transposed) {
      const products::Matrix stored{static_cast<const float*>(data), transposed ? rows : columns,
                                    1};
      return transposed ? stored.transposed() : stored;
    };
    auto* c = static_cast<float*>(l.outputs[0]);
    products::Finish finish;
    const auto apply = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
      chain_.apply_to_rectangle(engine_.kernels(), c, p.columns, {row, rows, column, columns},
                                l.inputs);
    };
    if (!chain_.empty()) finish = std::cref(apply);
    product_.run(matrix(l.inputs[0], p.depth, p.rows, p.transpose_a),
                 matrix(l.inputs[1], p.columns, p.depth, p.transpose_b), c, l.workspace, finish);
  }

 private:
  const Engine& engine_;
  MatrixProduct problem_;
  products::Product product_;
  PostChain chain_;
};

double estimate(const Engine& engine, const MatrixProduct& p, double rate) {
  const auto rows = static_cast<double>(p.rows), columns = static_cast<double>(p.columns),
             depth = static_cast<double>(p.depth);
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
  const std::optional<MatrixProduct> problem = parse_product(op);
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
  const std::optional<MatrixProduct> problem = parse_product(op);
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
