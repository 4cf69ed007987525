// This provider has matmul on bfloat16 by the matrix unit, and estimates its time.
#include "backends/cpu/bfloat16/product_provider.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/bfloat16/product.h"
#include "backends/cpu/matrix_product.h"
#include "backends/cpu/native.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

constexpr char kImplementation[] = "bfloat16:product:amx";

bool types_fit(const Operation& op) {
  const rt_dtype c = op.output(0).dtype;
  return op.input(0).dtype == RT_BFLOAT16 && op.input(1).dtype == RT_BFLOAT16 &&
         (c == RT_BFLOAT16 || c == RT_FLOAT32) &&
         (op.output_count() == 1 || op.output(1).dtype == c);
}

// The matmul as one product; empty if this provider does not serve it.
std::optional<MatrixProduct> parse_bfloat16_product(const Operation& op) {
  if (!op.is(RT_OP_MATMUL) || op.output_count() > 2 || foreign_operand(op) >= 0 || !types_fit(op))
    return std::nullopt;
  const auto product = as_one_product(op);
  if (!product || op.output_count() == 1) return product;
  const rt_tensor_desc& d = op.output(1);
  const bool fits =
      product->transpose_a && d.dtype == RT_FLOAT32 && d.rank == 1 && d.dims[0] == product->rows;
  return fits ? product : std::nullopt;
}

class Bfloat16ProductPlan : public Plan {
 public:
  Bfloat16ProductPlan(const Engine& engine, const Operation& op, const MatrixProduct& p,
                      const bfloat16::MatrixUnit& unit)
      : engine_(engine),
        problem_(p),
        product_(unit, {p.rows, p.columns, p.depth}, engine.threads(), op.output_count() == 2),
        chain_(op, ChannelOrder::innermost(p.columns)),
        narrow_(op.output(0).dtype == RT_BFLOAT16),
        row_sums_(op.output_count() == 2) {
    info_.implementation = kImplementation;
    info_.workspace_bytes = product_.workspace_bytes();
  }

  void launch(const rt_launch& l) override {
    const MatrixProduct& p = problem_;
    const auto matrix = [](const void* data, int64_t columns, int64_t rows, bool transposed) {
      const bfloat16::Matrix stored{static_cast<const uint16_t*>(data), transposed ? rows : columns,
                                    1};
      return transposed ? stored.transposed() : stored;
    };
    const auto finish = [&](const bfloat16::Block& block) { finish_block(l, block); };
    product_.run(matrix(l.inputs[0], p.depth, p.rows, p.transpose_a),
                 matrix(l.inputs[1], p.columns, p.depth, p.transpose_b),
                 row_sums_ ? output<float>(l, 1) : nullptr, l.workspace, std::cref(finish));
  }

 private:
  // Applies the post-operations to a block and writes it to c.
  void finish_block(const rt_launch& l, const bfloat16::Block& block) const {
    const kernels::Table& kernel = engine_.kernels();
    for (int64_t r = 0; r < block.rows; ++r) {
      float* const values = block.values + r * block.stride;
      const int64_t offset = (block.row + r) * problem_.columns + block.column;
      if (narrow_) {
        chain_.apply_to_wide(kernel, values, offset, block.columns, l.inputs);
        kernel.narrow(values, output<uint16_t>(l, 0) + offset, block.columns);
      } else {
        chain_.apply(kernel, values, offset, block.columns, l.inputs);
        std::memcpy(output<float>(l, 0) + offset, values,
                    static_cast<size_t>(block.columns) * sizeof(float));
      }
    }
  }

  const Engine& engine_;
  MatrixProduct problem_;
  bfloat16::Product product_;
  PostChain chain_;
  bool narrow_, row_sums_;
};

double estimate(const Engine& engine, const Operation& op, const MatrixProduct& p) {
  const auto rows = static_cast<double>(p.rows), columns = static_cast<double>(p.columns),
             depth = static_cast<double>(p.depth);
  const double bytes =
      2.0 * (rows * depth + depth * columns) +
      static_cast<double>(rt::sdk::dtype_bytes(op.output(0).dtype)) * rows * columns;
  const double rate = engine.bfloat16_speed() * engine.peak_flops_per_ns();
  return 3000.0 + std::max(2.0 * rows * columns * depth / rate, bytes / engine.bytes_per_ns());
}

}  // namespace

Bfloat16ProductProvider::Bfloat16ProductProvider(const Engine& engine) : engine_(engine) {
  if (engine.bfloat16_obstacle().empty()) unit_ = bfloat16::matrix_unit();
}

Answer Bfloat16ProductProvider::query(const Operation& op) {
  Answer answer;
  const std::optional<MatrixProduct> problem = parse_bfloat16_product(op);
  if (unit_ == nullptr || !problem) return answer;
  check_post_ops(op);
  answer.level = RT_SUPPORT_NATIVE;
  answer.post_ops_fused = op.post_op_count();
  Candidate c;
  c.algorithm = 1;
  c.estimated_ns = estimate(engine_, op, *problem);
  c.implementation = kImplementation;
  answer.candidates.push_back(std::move(c));
  return answer;
}

std::unique_ptr<Plan> Bfloat16ProductProvider::create(const Operation& op, uint32_t algorithm) {
  const std::optional<MatrixProduct> problem = parse_bfloat16_product(op);
  if (unit_ == nullptr || !problem) {
    if (algorithm == 0) return nullptr;
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                         "matmul: this algorithm does not exist for these operands; create only "
                         "what a query listed");
  }
  check_post_ops(op);
  return std::make_unique<Bfloat16ProductPlan>(engine_, op, *problem, *unit_);
}

}  // namespace backends::cpu
