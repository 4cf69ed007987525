// The convolutions by cuDNN. They use its graph API and not cudnnConvolutionForward and its like,
// because the graph API reports at the creation of a plan, not at its launch, that the device does
// not support a convolution, because its engines say whether they are deterministic and use tensor
// cores, and because an image may be padded differently on opposite sides.
#include <algorithm>

#include "backends/cuda/cudnn_attention.h"
#include "backends/cuda/cudnn_session.h"
#include "backends/cuda/provider.h"
#include "backends/gpu/convolution.h"
#include "backends/gpu/convolution_work.h"
#include "backends/gpu/passes.h"

namespace backends::cuda {
namespace {

using gpu::Convolution;
using gpu::Direction;
using gpu::Kernel;
using gpu::Launch;
using gpu::Operation;
using gpu::Tensor4;
using rt::sdk::Error;
using rt::sdk::format;

constexpr int64_t kMostConvolutionWorkspace = 256 << 20;  // bytes
// Engines that compute wrongly (cuDNN 9.19, H100). No note tells them apart from the others. The
// first computes the gradient of 5 x 5 weights in float32 with an error of 2e-4 of its norm. The
// others give 0 in float16 where the result is -inf.
constexpr int64_t kInexactGradientEngine = 17, kFiniteHalfEngines[] = {32, 47};

cudnnDataType_t type_of(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
      return CUDNN_DATA_DOUBLE;
    case RT_FLOAT16:
      return CUDNN_DATA_HALF;
    case RT_BFLOAT16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}
// The type in which sums are made and in which one operation of a graph passes its result to the
// next.
cudnnDataType_t compute_type(rt_dtype dtype) {
  return dtype == RT_FLOAT64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
}

// The unique id of a tensor in a graph. It also says which operand of the operation the tensor is.
int64_t id_of(uint32_t index, bool is_output) { return is_output ? 100 + index : 1 + index; }

// Builds the cuDNN graph of a convolution with its fused sums (bias, residual).
class Builder {
 public:
  Builder(const Session& session, const Convolution& c)
      : c_(c), graph_(std::make_shared<Graph>(session.call)) {
    add_convolution();
    if (c.residual >= 0) add_sum(tensor(c.result.dims, c.result.strides, c.residual));
    if (c.bias >= 0) {
      const int64_t o = c.result.dims[1];
      add_sum(tensor({1, o, 1, 1}, {o, 1, o, o}, c.bias));
    }
    graph_->finalize(session);
  }
  std::shared_ptr<const Graph> get() const { return graph_; }

 private:
  // A new descriptor, which the graph owns.
  Descriptor& part(cudnnBackendDescriptorType_t type) { return graph_->part(type); }

  // Describes a tensor in memory, an operand of the operation.
  const Descriptor& tensor(const Sizes& dims, const Sizes& strides, int64_t index,
                           bool is_output = false) {
    graph_->ids.push_back(id_of(static_cast<uint32_t>(index), is_output));
    return graph_->tensor(dims, strides, type_of(c_.dtype), graph_->ids.back()).finalize();
  }
  const Descriptor& tensor(const Tensor4& t) {
    return tensor(t.dims, t.strides, t.index, t.is_output);
  }
  // Describes the result of the next operation: the output for the last one, else a virtual tensor
  // that the following operation reads.
  const Descriptor& next_result() {
    if (++made_ > c_.fused) return tensor(c_.result.dims, c_.result.strides, 0, true);
    return graph_->tensor(c_.result.dims, c_.result.strides, compute_type(c_.dtype), 200 + made_)
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true)
        .finalize();
  }
  void factor(Descriptor& d, cudnnBackendAttributeName_t name, double value) const {
    const auto narrow = static_cast<float>(value);
    if (c_.dtype == RT_FLOAT64) {
      d.set(name, CUDNN_TYPE_DOUBLE, value);
    } else {
      d.set(name, CUDNN_TYPE_FLOAT, narrow);
    }
  }

  const Descriptor& window() {
    return part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, compute_type(c_.dtype))
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, int64_t{2})
        .set_integers(CUDNN_ATTR_CONVOLUTION_DILATIONS, c_.dilation)
        .set_integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c_.stride)
        .set_integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c_.pad_before)
        .set_integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c_.pad_after)
        .finalize();
  }

  // The descriptor type and the attribute names of a convolution operation. cuDNN has others for
  // the forward, for the gradient of the image and for the gradient of the weights.
  struct Names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, window, image, weights, result;
  };
  static Names names_of(Direction direction) {
    switch (direction) {
      case Direction::kForward:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
      case Direction::kBackwardData:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
      default:
        return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
    }
  }

  void add_convolution() {
    const Names names = names_of(c_.direction);
    const bool forward = c_.direction == Direction::kForward;
    const Descriptor &image = tensor(c_.image), &weights = tensor(c_.weights),
                     &result = forward ? next_result() : tensor(c_.result),
                     &window = this->window();
    last_ = &result;
    Descriptor& d = part(names.type);
    d.set(names.window, window).set(names.image, image).set(names.weights, weights);
    d.set(names.result, result);
    factor(d, names.alpha, 1);
    factor(d, names.beta, 0);
    graph_->operations.push_back(d.finalize().get());
  }

  void add_sum(const Descriptor& other) {
    Descriptor& how =
        part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
            .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_ADD)
            .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute_type(c_.dtype))
            .finalize();
    const Descriptor& result = next_result();
    Descriptor& d = part(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
                        .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)
                        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *last_)
                        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, other)
                        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result);
    last_ = &result;
    graph_->operations.push_back(d.finalize().get());
  }

  const Convolution c_;
  const std::shared_ptr<Graph> graph_;
  const Descriptor* last_ = nullptr;  // the result of the latest operation
  uint32_t made_ = 0;                 // number of results so far
};

class Cudnn : public gpu::Vendor {
 public:
  explicit Cudnn(bool tf32) : session_(std::make_shared<Session>()), tf32_(tf32) {}

  std::vector<Kernel> kernels(const Operation& op, size_t most, std::string* without) override {
    if (is_attention(op)) {
      return attention_kernels(session_, op, most, WorkspaceLimits(), without);
    }
    // With sums in the graph there are fewer engines. So the graph gets either all post-operations
    // or none: the pass for the others computes the sums on its way.
    const uint32_t all = op.post_op_count();
    std::vector<Kernel> kernels = kernels_with(all, op, most, without);
    if (kernels.empty() && all > 0) kernels = kernels_with(0, op, most, without);
    if (!kernels.empty()) without->clear();
    return kernels;
  }

  void forget(cudaStream_t stream) override { session_->forget(stream); }

 private:
  // Kernels whose graph has the first `fused` post-operations; none if a graph cannot have them.
  std::vector<Kernel> kernels_with(uint32_t fused, const Operation& op, size_t most,
                                   std::string* without) const {
    std::vector<Kernel> kernels;
    const auto c = gpu::convolution_of(op, fused);
    if (!c || c->fused < fused) return kernels;
    for (const auto& plan : plans(*c, most, without)) kernels.push_back(make(op, *c, plan));
    return kernels;
  }

  bool uses_tf32(const Convolution& c) const { return tf32_ && c.dtype == RT_FLOAT32; }

  std::vector<std::shared_ptr<const Plan>> plans(const Convolution& c, size_t most,
                                                 std::string* without) const {
    *without = "cuDNN has no deterministic engine in this precision";
    if (c.pad_before != c.pad_after) {
      *without = "cuDNN is not asked for convolutions with other padding on opposite sides";
      return {};
    }
    if (!gpu::is_counted(c)) {
      *without = format("cuDNN is asked for tensors of at most %lld elements",
                        static_cast<long long>(gpu::kMostCounted));
      return {};
    }
    Wishes wishes;
    wishes.exact_float32 = c.dtype == RT_FLOAT32 && !tf32_;
    wishes.most_workspace = kMostConvolutionWorkspace;
    if (wishes.exact_float32 && c.direction == Direction::kBackwardWeights)
      wishes.without.push_back(kInexactGradientEngine);
    if (c.dtype == RT_FLOAT16)
      wishes.without.assign(std::begin(kFiniteHalfEngines), std::end(kFiniteHalfEngines));
    try {
      return find_plans(session_, Builder(*session_, c).get(), wishes, most);
    } catch (const Error& refusal) {  // this version of the library does not support the graph
      *without = refusal.what();
      return {};
    }
  }

  Kernel make(const Operation& op, const Convolution& c,
              const std::shared_ptr<const Plan>& plan) const {
    Kernel kernel;
    kernel.workspace_bytes = static_cast<uint64_t>(plan->workspace);
    kernel.implementation = format("cudnn engine %lld%s", static_cast<long long>(plan->engine),
                                   uses_tf32(c) ? " tf32" : "");
    if (uses_tf32(c)) kernel.tolerance = kToleranceTf32;
    kernel.work = {gpu::convolution_work(op, c, kernel.implementation)};
    gpu::Pass rest = gpu::post_pass(op, c.fused);
    if (rest) kernel.work.push_back(gpu::post_pass_work(op, c.fused));
    if (c.direction == Direction::kBackwardWeights && op.output_count() > 1) {
      uint64_t bytes = 0;
      rest = gpu::bias_gradient_pass(op, &bytes);
      for (gpu::Work& work : gpu::bias_gradient_work(op, bytes))
        kernel.work.push_back(std::move(work));
      kernel.workspace_bytes = std::max(kernel.workspace_bytes, bytes);
    }
    kernel.run = [plan, rest](const Launch& l) {
      std::vector<void*> addresses;
      for (const int64_t id : plan->graph->ids) {
        addresses.push_back(id >= 100 ? l.outputs[id - 100] : const_cast<void*>(l.inputs[id - 1]));
      }
      run(*plan, addresses, l);
      if (rest) rest(l);
    };
    return kernel;
  }

  std::shared_ptr<Session> session_;
  bool tf32_;
};

}  // namespace

std::unique_ptr<gpu::Vendor> open_cudnn(bool tf32) { return std::make_unique<Cudnn>(tf32); }

}  // namespace backends::cuda
