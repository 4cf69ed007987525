// The layers of the benchmarks bare_*, which call oneDNN directly, without the runtime: a
// convolution or a linear layer with bias and optional ReLU, average pooling, and the loss. Each
// appends its calls to a Sequence: forward calls when it is constructed, gradients in backward(),
// and the SGD update in update().
#ifndef TOOLS_BENCH_BARE_LAYERS_H_
#define TOOLS_BENCH_BARE_LAYERS_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/peers/sequence.h"

namespace bench {

enum class Activation { kNone, kRelu };

// The description of a layer with weights. The source keeps the format that it has; `output_tag` is
// the format of the result; `weights_tag` may be Tag::any (oneDNN chooses) or a plain format.
struct WeightedShape {
  std::string name;
  Dims weights;  // (outputs, inputs) or (outputs, inputs, height, width)
  Tag weights_tag = Tag::any;
  Dims output;
  Tag output_tag = Tag::nhwc;
  Activation activation = Activation::kNone;
};

// A convolution with stride 1 and no padding.
struct ConvolutionKind {
  using Md = dnnl::memory::desc;
  using Forward = dnnl::convolution_forward;
  using BackwardData = dnnl::convolution_backward_data;
  using BackwardWeights = dnnl::convolution_backward_weights;

  static Forward::desc forward(const Md& src, const Md& weights, const Md& bias, const Md& dst);
  static BackwardData::desc backward_data(const Md& src, const Md& weights, const Md& dst);
  static BackwardWeights::desc backward_weights(const Md& src, const Md& weights, const Md& bias,
                                                const Md& dst);
};

// A linear layer. All dimensions after the first are inputs of one sample.
struct LinearKind {
  using Md = dnnl::memory::desc;
  using Forward = dnnl::inner_product_forward;
  using BackwardData = dnnl::inner_product_backward_data;
  using BackwardWeights = dnnl::inner_product_backward_weights;

  static Forward::desc forward(const Md& src, const Md& weights, const Md& bias, const Md& dst);
  static BackwardData::desc backward_data(const Md& src, const Md& weights, const Md& dst);
  static BackwardWeights::desc backward_weights(const Md& src, const Md& weights, const Md& bias,
                                                const Md& dst);
};

template <typename Kind>
class WeightedLayer {
 public:
  // Appends the forward pass, with bias and ReLU fused.
  WeightedLayer(Sequence& sequence, WeightedShape shape, dnnl::memory source);

  const dnnl::memory& output() const { return output_; }

  // Appends ReLU's gradient (in place), the gradients of weights and bias and, if `source_gradient`
  // is given, the gradient of the source.
  void backward(dnnl::memory output_gradient, std::optional<dnnl::memory> source_gradient);

  // Appends weights -= rate * gradient, and the copies of the weights that other formats need.
  void update(float rate);

 private:
  void add_relu_backward(const dnnl::memory& gradient);

  Sequence& sequence_;
  WeightedShape shape_;
  typename Kind::Forward::primitive_desc forward_;
  dnnl::memory source_, output_, weights_, bias_;
  dnnl::memory backward_weights_;                  // in the format that the data gradient needs
  dnnl::memory weights_gradient_, bias_gradient_;  // in the format that the primitive writes
};

using ConvolutionLayer = WeightedLayer<ConvolutionKind>;
using LinearLayer = WeightedLayer<LinearKind>;

// Average pooling 2 x 2 with stride 2, channels last. Rows and columns that do not fill a window
// are dropped.
class AveragePooling {
 public:
  AveragePooling(Sequence& sequence, std::string name, dnnl::memory source);

  const dnnl::memory& output() const { return output_; }
  void backward(dnnl::memory output_gradient, dnnl::memory source_gradient);

 private:
  Sequence& sequence_;
  std::string name_;
  dnnl::memory source_, output_;
  std::optional<dnnl::pooling_forward::primitive_desc> forward_;
};

// Appends the mean softmax cross-entropy of `logits` (batch x classes) into *loss and its gradient
// into `gradient`, in one loop. `loss` and `labels` must outlive the sequence.
void add_cross_entropy(Sequence& sequence, dnnl::memory logits, dnnl::memory gradient,
                       const std::vector<int>& labels, float* loss);

// Pseudo-random labels in 0..classes-1, the same on every run.
std::vector<int> random_labels(int64_t count, int classes);

}  // namespace bench

#endif  // TOOLS_BENCH_BARE_LAYERS_H_
