// This provider has layouts of weights that are packed for the matrix unit, and the products and
// convolutions that read them.
#include "backends/cpu/products/packed_provider.h"

#include <algorithm>
#include <functional>
#include <string>

#include "backends/cpu/matrix_product.h"
#include "backends/cpu/post_chain.h"
#include "backends/cpu/window.h"
#include "rt/operations.h"

namespace backends::cpu {
namespace {

using products::ImageProduct;
using products::ImageSizes;
using products::PackedWeights;

constexpr uint32_t kPacked = 1;  // the algorithm
// The layouts of weights that are stored as [O][depth], where the depth may be KH, KW and C, and of
// those that are stored as [depth][O]. The upper half spells "PACK".
constexpr uint64_t kColumns = UINT64_C(0x5041434B00000001), kRows = UINT64_C(0x5041434B00000002);
constexpr int64_t kFewestChannels = 16;  // with fewer, most of the products would be with zeros

bool is_packed(uint64_t layout) { return layout == kColumns || layout == kRows; }

// The shape of weights: `taps` times `c` numbers for each of `o` columns.
struct WeightShape {
  int64_t taps, c, o;
};

std::optional<WeightShape> weight_shape(const rt_tensor_desc& t, uint64_t layout) {
  if (t.dtype != RT_FLOAT32) return std::nullopt;
  if (t.rank == 2 && layout == kRows) return WeightShape{1, t.dims[0], t.dims[1]};
  if (t.rank == 2 && layout == kColumns) return WeightShape{1, t.dims[1], t.dims[0]};
  if (t.rank != 4 || layout != kColumns) return std::nullopt;
  return WeightShape{t.dims[1] * t.dims[2], t.dims[3], t.dims[0]};
}

PackedWeights packed_weights(const products::SplitKernels& kernels, const WeightShape& w,
                             uint64_t layout) {
  return {kernels, w.taps, w.c, w.o, layout == kRows};
}

// An operation as a product of the patches of an image, and the layout of its weights.
struct PackedProblem {
  ImageSizes sizes;
  uint64_t layout;
};

std::optional<PackedProblem> parse_packed_matmul(const Operation& op) {
  const auto product = as_one_product(op);
  if (!product || product->transpose_a) return std::nullopt;
  ImageSizes s;
  s.n = product->rows, s.c = product->depth, s.o = product->columns;
  return PackedProblem{s, product->transpose_b ? kColumns : kRows};
}

std::optional<PackedProblem> parse_packed_convolution(const Operation& op) {
  const rt_tensor_desc &x = op.input(0), &w = op.input(1), &y = op.output(0);
  if (x.rank != 4 || w.rank != 4 || y.rank != 4 || op.integer(RT_ATTR_GROUPS, 1) != 1)
    return std::nullopt;
  const Window window = convolution_window(op, x, w, y);
  ImageSizes s{x.dims[0], x.dims[1], x.dims[2], x.dims[3], w.dims[0],
               w.dims[1], w.dims[2], y.dims[1], y.dims[2]};
  s.stride_h = window.stride_h, s.stride_w = window.stride_w;
  s.pad_top = window.pad_top, s.pad_left = window.pad_left;
  s.dilation_h = window.dilation_h, s.dilation_w = window.dilation_w;
  return PackedProblem{s, kColumns};
}

// Empty if this provider does not serve the operation with these layouts.
std::optional<PackedProblem> parse_packed(const Operation& op) {
  const bool matmul = op.is(RT_OP_MATMUL);
  if ((!matmul && !op.is(RT_OP_CONV2D)) || op.own_input_count() != 2 || op.output_count() != 1)
    return std::nullopt;
  const uint64_t given = op.input(1).layout;
  if (!is_packed(given) && given != RT_LAYOUT_ANY) return std::nullopt;
  for (uint32_t i = 0; i < op.input_count(); ++i) {
    if (op.input(i).dtype != RT_FLOAT32 || (i != 1 && !is_canonical(op.input(i))))
      return std::nullopt;
  }
  if (op.output(0).dtype != RT_FLOAT32 || !is_canonical(op.output(0))) return std::nullopt;
  auto problem = matmul ? parse_packed_matmul(op) : parse_packed_convolution(op);
  if (!problem || (is_packed(given) && given != problem->layout)) return std::nullopt;
  const ImageSizes& s = problem->sizes;
  if (s.rows() < 1 || s.o < 1 || s.taps() < 1 || s.c < kFewestChannels) return std::nullopt;
  return problem;
}

class ImagePlan : public Plan {
 public:
  ImagePlan(const Engine& engine, const Operation& op, const PackedProblem& p,
            const products::SplitKernels& kernels)
      : engine_(engine),
        columns_(p.sizes.o),
        product_(kernels, products::kernels_for(engine.isa()), p.sizes,
                 packed_weights(kernels, {p.sizes.taps(), p.sizes.c, p.sizes.o}, p.layout),
                 engine.threads()),
        chain_(op, ChannelOrder::innermost(p.sizes.o)) {
    info_.implementation = std::string("native:packed:") + kernels.table->name;
    info_.workspace_bytes = product_.workspace_bytes();
  }

  void launch(const rt_launch& l) override {
    auto* y = static_cast<float*>(l.outputs[0]);
    products::Finish finish;
    const auto apply = [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
      chain_.apply_to_rectangle(engine_.kernels(), y, columns_, {row, rows, column, columns},
                                l.inputs);
    };
    if (!chain_.empty()) finish = std::cref(apply);
    product_.run(static_cast<const float*>(l.inputs[0]), l.inputs[1], y, l.workspace, finish);
  }

 private:
  const Engine& engine_;
  int64_t columns_;
  ImageProduct product_;
  PostChain chain_;
};

class PackPlan : public Plan {
 public:
  PackPlan(const Engine& engine, const PackedWeights& weights)
      : engine_(engine), weights_(weights) {
    info_.implementation = "native:pack_weights";
  }
  void launch(const rt_launch& l) override {
    weights_.pack(static_cast<const float*>(l.inputs[0]), l.outputs[0], engine_.threads());
  }

 private:
  const Engine& engine_;
  PackedWeights weights_;
};

double estimate(const Engine& engine, const ImageSizes& s, const PackedWeights& weights) {
  const double bytes = 4.0 * static_cast<double>(s.n * s.h * s.w * s.c + s.rows() * s.o) +
                       static_cast<double>(weights.bytes());
  return 3000.0 +
         std::max(s.flops() / (1.4 * engine.peak_flops_per_ns()), bytes / engine.bytes_per_ns());
}

// The shape of the weights that a copy packs; empty if the operation is no such copy.
std::optional<WeightShape> parse_copy(const Operation& op) {
  if (!op.is(RT_OP_COPY) || op.input_count() != 1 || op.output_count() != 1) return std::nullopt;
  const rt_tensor_desc &from = op.input(0), &to = op.output(0);
  if (from.layout != RT_LAYOUT_CANONICAL || from.dtype != RT_FLOAT32 || from.rank != to.rank ||
      !std::equal(from.dims, from.dims + from.rank, to.dims))
    return std::nullopt;
  return weight_shape(to, to.layout);
}

Candidate make_candidate(double ns, std::string implementation) {
  Candidate c;
  c.algorithm = kPacked;
  c.estimated_ns = ns;
  c.implementation = std::move(implementation);
  return c;
}

}  // namespace

PackedProvider::PackedProvider(const Engine& engine) : engine_(engine) {
  if (engine.bf16x3() && engine.isa() == Isa::kAvx512) kernels_ = products::split_image_kernels();
}

Answer PackedProvider::query(const Operation& op) {
  Answer answer;
  if (kernels_ == nullptr) return answer;
  if (const auto shape = parse_copy(op)) {
    const uint64_t layout = op.output(0).layout;
    const double bytes =
        static_cast<double>(packed_weights(*kernels_, *shape, layout).bytes()) * 5 / 3;
    answer.level = RT_SUPPORT_NATIVE;
    answer.candidates.push_back(
        make_candidate(4000 + bytes / engine_.bytes_per_ns(), "native:pack_weights"));
    answer.candidates[0].output_layouts[0] = layout;
    return answer;
  }
  const std::optional<PackedProblem> problem = parse_packed(op);
  if (!problem) return answer;
  check_post_ops(op);
  answer.level = RT_SUPPORT_NATIVE;
  answer.post_ops_fused = op.post_op_count();
  const ImageSizes& s = problem->sizes;
  answer.candidates.push_back(make_candidate(
      estimate(engine_, s, packed_weights(*kernels_, {s.taps(), s.c, s.o}, problem->layout)),
      std::string("native:packed:") + kernels_->table->name));
  answer.candidates[0].input_layouts[1] = problem->layout;
  return answer;
}

std::unique_ptr<Plan> PackedProvider::create(const Operation& op, uint32_t algorithm) {
  const auto shape = kernels_ == nullptr ? std::nullopt : parse_copy(op);
  if (shape) {
    return std::make_unique<PackPlan>(engine_,
                                      packed_weights(*kernels_, *shape, op.output(0).layout));
  }
  const auto problem = kernels_ == nullptr ? std::nullopt : parse_packed(op);
  if (problem && is_packed(op.input(1).layout)) {
    check_post_ops(op);
    return std::make_unique<ImagePlan>(engine_, op, *problem, *kernels_);
  }
  if (algorithm == 0) return nullptr;
  throw rt::sdk::Error(RT_ERROR_UNSUPPORTED,
                       std::string(op.name()) +
                           ": this algorithm does not exist for these operands; create only what "
                           "a query listed");
}

std::optional<uint64_t> PackedProvider::layout_bytes(const rt_tensor_desc& tensor) const {
  const auto shape = kernels_ == nullptr ? std::nullopt : weight_shape(tensor, tensor.layout);
  if (!shape) return std::nullopt;
  return packed_weights(*kernels_, *shape, tensor.layout).bytes();
}

std::optional<std::string> PackedProvider::layout_name(const rt_tensor_desc& tensor) const {
  if (kernels_ == nullptr || !is_packed(tensor.layout)) return std::nullopt;
  return tensor.layout == kRows ? "packed bf16x3 rows" : "packed bf16x3 columns";
}

}  // namespace backends::cpu
