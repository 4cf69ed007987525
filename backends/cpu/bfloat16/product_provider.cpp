#include "backends/cpu/bfloat16/product_provider.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/bfloat16/product.h"
#include "backends/cpu/native.h"
#include "backends/cpu/post_chain.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

constexpr char kImplementation[] = "bfloat16:product:amx";

// A matmul as one product of two matrices.
struct Problem {
  bfloat16::Sizes sizes;
  bool transpose_a, transpose_b;
};

bool is_canonical(const Operation& op) {
  const auto canonical = [](const rt_tensor_desc& tensor) {
    return tensor.layout == RT_LAYOUT_CANONICAL || tensor.layout == RT_LAYOUT_ANY;
  };
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (!canonical(op.input(i))) return false;
  }
  for (uint32_t i = 0; i < op.output_count(); ++i) {
    if (!canonical(op.output(i))) return false;
  }
  return true;
}

bool types_fit(const Operation& op) {
  const rt_dtype c = op.output(0).dtype;
  return op.input(0).dtype == RT_BFLOAT16 && op.input(1).dtype == RT_BFLOAT16 &&
         (c == RT_BFLOAT16 || c == RT_FLOAT32) &&
         (op.output_count() == 1 || op.output(1).dtype == c);
}

// The matmul as one product, with the rows of all batches as one matrix; empty if it is none, if
// shapes or types do not fit, or if a dimension is 0.
std::optional<Problem> parse(const Operation& op) {
  if (!op.is(RT_OP_MATMUL) || op.own_input_count() != 2 || op.output_count() > 2 ||
      !is_canonical(op) || !types_fit(op))
    return std::nullopt;
  const rt_tensor_desc &a = op.input(0), &b = op.input(1), &c = op.output(0);
  const bool ta = op.integer(RT_ATTR_TRANSPOSE_A, 0) != 0,
             tb = op.integer(RT_ATTR_TRANSPOSE_B, 0) != 0;
  if (a.rank < 2 || b.rank != 2 || c.rank != a.rank || (ta && a.rank != 2)) return std::nullopt;
  const int64_t depth = ta ? a.dims[0] : last_dim(a);
  const bfloat16::Sizes sizes{row_count(c), last_dim(c), depth};
  const bool fits = (ta ? a.dims[1] : row_count(a)) == sizes.rows && b.dims[tb ? 1 : 0] == depth &&
                    b.dims[tb ? 0 : 1] == sizes.columns;
  if (!fits || sizes.rows == 0 || sizes.columns == 0 || depth == 0) return std::nullopt;
  if (op.output_count() == 2) {
    const rt_tensor_desc& d = op.output(1);
    if (!ta || d.dtype != RT_FLOAT32 || d.rank != 1 || d.dims[0] != sizes.rows) return std::nullopt;
  }
  return Problem{sizes, ta, tb};
}

class ProductPlan : public Plan {
 public:
  ProductPlan(const Engine& engine, const Operation& op, const Problem& p,
              const bfloat16::MatrixUnit& unit)
      : engine_(engine),
        problem_(p),
        product_(unit, p.sizes, engine.threads(), op.output_count() == 2),
        chain_(op, ChannelOrder::innermost(p.sizes.columns)),
        narrow_(op.output(0).dtype == RT_BFLOAT16),
        row_sums_(op.output_count() == 2) {
    info_.implementation = kImplementation;
    info_.workspace_bytes = product_.workspace_bytes();
  }

  void launch(const rt_launch& l) override {
    engine_.bind_calling_thread();
    const bfloat16::Sizes& s = problem_.sizes;
    const auto matrix = [](const void* data, int64_t columns, int64_t rows, bool transposed) {
      const bfloat16::Matrix stored{static_cast<const uint16_t*>(data), transposed ? rows : columns,
                                    1};
      return transposed ? stored.transposed() : stored;
    };
    const auto finish = [&](const bfloat16::Block& block) { finish_block(l, block); };
    product_.run(matrix(l.inputs[0], s.depth, s.rows, problem_.transpose_a),
                 matrix(l.inputs[1], s.columns, s.depth, problem_.transpose_b),
                 row_sums_ ? output<float>(l, 1) : nullptr, l.workspace, std::cref(finish));
  }

 private:
  // Applies the post-operations to a block and writes it to c.
  void finish_block(const rt_launch& l, const bfloat16::Block& block) const {
    const kernels::Table& kernel = engine_.kernels();
    for (int64_t r = 0; r < block.rows; ++r) {
      float* const values = block.values + r * block.stride;
      const int64_t offset = (block.row + r) * problem_.sizes.columns + block.column;
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
  Problem problem_;
  bfloat16::Product product_;
  PostChain chain_;
  bool narrow_, row_sums_;
};

double estimate(const Engine& engine, const Operation& op, const Problem& p) {
  const auto rows = static_cast<double>(p.sizes.rows),
             columns = static_cast<double>(p.sizes.columns),
             depth = static_cast<double>(p.sizes.depth);
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
  const std::optional<Problem> problem = parse(op);
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
  const std::optional<Problem> problem = parse(op);
  if (unit_ == nullptr || !problem) {
    if (algorithm == 0) return nullptr;
    throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                         "matmul: this algorithm does not exist for these operands; create only "
                         "what a query listed");
  }
  check_post_ops(op);
  return std::make_unique<ProductPlan>(engine_, op, *problem, *unit_);
}

}  // namespace backends::cpu
