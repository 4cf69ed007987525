// Calls oneDNN's primitives for layers of the bare benchmarks.
#include "tools/peers/bare_layers.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace bench {

namespace {

constexpr auto kDirect = dnnl::algorithm::convolution_direct;
const Dims kNoPadding{0, 0}, kStrideOne{1, 1}, kTwo{2, 2};

float* floats(const dnnl::memory& memory) { return static_cast<float*>(memory.get_data_handle()); }

int64_t count(const dnnl::memory& memory) {
  return static_cast<int64_t>(memory.get_desc().get_size() / sizeof(float));
}

Tag plain_tag(const Dims& dims) { return dims.size() == 4 ? Tag::nchw : Tag::nc; }

int64_t inputs_of(const Dims& weights) {
  int64_t product = 1;
  for (size_t d = 1; d < weights.size(); ++d) product *= weights[d];
  return product;
}

// Also updates the padding of blocked formats: weights and gradient are zero there, so it stays
// zero.
void subtract_scaled(float* weights, const float* gradient, int64_t n, float rate) {
#pragma omp parallel for simd schedule(static) if (n > 8192)
  for (int64_t i = 0; i < n; ++i) weights[i] -= rate * gradient[i];
}

float cross_entropy_row(const float* logits, int64_t classes, int label, float scale,
                        float* gradient) {
  const float largest = *std::max_element(logits, logits + classes);
  float sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += gradient[c] = std::exp(logits[c] - largest);
  for (int64_t c = 0; c < classes; ++c) gradient[c] *= scale / sum;
  gradient[label] -= scale;
  return std::log(sum) + largest - logits[label];
}

}  // namespace

using Md = dnnl::memory::desc;

ConvolutionKind::Forward::desc ConvolutionKind::forward(const Md& src, const Md& weights,
                                                        const Md& bias, const Md& dst) {
  return {dnnl::prop_kind::forward_training,
          kDirect,
          src,
          weights,
          bias,
          dst,
          kStrideOne,
          kNoPadding,
          kNoPadding};
}

ConvolutionKind::BackwardData::desc ConvolutionKind::backward_data(const Md& src, const Md& weights,
                                                                   const Md& dst) {
  return {kDirect, src, weights, dst, kStrideOne, kNoPadding, kNoPadding};
}

ConvolutionKind::BackwardWeights::desc ConvolutionKind::backward_weights(const Md& src,
                                                                         const Md& weights,
                                                                         const Md& bias,
                                                                         const Md& dst) {
  return {kDirect, src, weights, bias, dst, kStrideOne, kNoPadding, kNoPadding};
}

LinearKind::Forward::desc LinearKind::forward(const Md& src, const Md& weights, const Md& bias,
                                              const Md& dst) {
  return {dnnl::prop_kind::forward_training, src, weights, bias, dst};
}

LinearKind::BackwardData::desc LinearKind::backward_data(const Md& src, const Md& weights,
                                                         const Md& dst) {
  return {src, weights, dst};
}

LinearKind::BackwardWeights::desc LinearKind::backward_weights(const Md& src, const Md& weights,
                                                               const Md& bias, const Md& dst) {
  return {src, weights, bias, dst};
}

template <typename Kind>
WeightedLayer<Kind>::WeightedLayer(Sequence& sequence, WeightedShape shape, dnnl::memory source)
    : sequence_(sequence), shape_(std::move(shape)), source_(std::move(source)) {
  dnnl::primitive_attr attributes = Sequence::attributes();
  if (shape_.activation == Activation::kRelu) {
    dnnl::post_ops ops;
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(ops);
  }
  const auto bias = describe({shape_.weights[0]}, Tag::x);
  forward_ = {Kind::forward(source_.get_desc(), describe(shape_.weights, shape_.weights_tag), bias,
                            describe(shape_.output, shape_.output_tag)),
              attributes, sequence_.engine()};
  const float bound = 1.0f / std::sqrt(static_cast<float>(inputs_of(shape_.weights)));
  weights_ = sequence_.allocate_random(forward_.weights_desc(), plain_tag(shape_.weights), bound);
  bias_ = sequence_.allocate_random(bias, Tag::x, bound);
  output_ = sequence_.allocate(forward_.dst_desc());
  sequence_.add(shape_.name + " forward", forward_, typename Kind::Forward(forward_),
                {{DNNL_ARG_SRC, source_},
                 {DNNL_ARG_WEIGHTS, weights_},
                 {DNNL_ARG_BIAS, bias_},
                 {DNNL_ARG_DST, output_}});
}

template <typename Kind>
void WeightedLayer<Kind>::add_relu_backward(const dnnl::memory& gradient) {
  const auto algorithm = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  const dnnl::eltwise_forward::primitive_desc hint(
      {dnnl::prop_kind::forward_training, algorithm, output_.get_desc()}, Sequence::attributes(),
      sequence_.engine());
  const dnnl::eltwise_backward::primitive_desc desc(
      {algorithm, gradient.get_desc(), output_.get_desc()}, Sequence::attributes(),
      sequence_.engine(), hint);
  sequence_.add(
      shape_.name + " ReLU backward", desc, dnnl::eltwise_backward(desc),
      {{DNNL_ARG_DST, output_}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_SRC, gradient}});
}

template <typename Kind>
void WeightedLayer<Kind>::backward(dnnl::memory output_gradient,
                                   std::optional<dnnl::memory> source_gradient) {
  if (shape_.activation == Activation::kRelu) add_relu_backward(output_gradient);
  const auto any = describe(shape_.weights, shape_.weights_tag);
  const typename Kind::BackwardWeights::primitive_desc weights(
      Kind::backward_weights(source_.get_desc(), any, bias_.get_desc(), output_gradient.get_desc()),
      Sequence::attributes(), sequence_.engine(), forward_);
  weights_gradient_ = sequence_.allocate(weights.diff_weights_desc());
  bias_gradient_ = sequence_.allocate(bias_.get_desc());
  sequence_.add(shape_.name + " backward weights", weights, typename Kind::BackwardWeights(weights),
                {{DNNL_ARG_SRC, source_},
                 {DNNL_ARG_DIFF_DST, output_gradient},
                 {DNNL_ARG_DIFF_WEIGHTS, weights_gradient_},
                 {DNNL_ARG_DIFF_BIAS, bias_gradient_}});
  if (!source_gradient) return;
  const typename Kind::BackwardData::primitive_desc data(
      Kind::backward_data(source_gradient->get_desc(), any, output_gradient.get_desc()),
      Sequence::attributes(), sequence_.engine(), forward_);
  const bool shared = data.weights_desc() == weights_.get_desc();
  backward_weights_ =
      shared ? weights_
             : sequence_.allocate_random(data.weights_desc(), plain_tag(shape_.weights), 0.1f);
  sequence_.add(shape_.name + " backward data", data, typename Kind::BackwardData(data),
                {{DNNL_ARG_DIFF_DST, output_gradient},
                 {DNNL_ARG_WEIGHTS, backward_weights_},
                 {DNNL_ARG_DIFF_SRC, *source_gradient}});
}

template <typename Kind>
void WeightedLayer<Kind>::update(float rate) {
  dnnl::memory gradient = weights_gradient_;
  if (gradient.get_desc() != weights_.get_desc()) {
    gradient = sequence_.allocate(weights_.get_desc());
    sequence_.add_reorder(shape_.name + " gradient reorder", weights_gradient_, gradient);
  }
  sequence_.add(shape_.name + " SGD", [this, gradient, rate] {
    subtract_scaled(floats(weights_), floats(gradient), count(weights_), rate);
    subtract_scaled(floats(bias_), floats(bias_gradient_), count(bias_), rate);
  });
  if (backward_weights_ && backward_weights_.get_desc() != weights_.get_desc())
    sequence_.add_reorder(shape_.name + " weights reorder", weights_, backward_weights_);
}

template class WeightedLayer<ConvolutionKind>;
template class WeightedLayer<LinearKind>;

AveragePooling::AveragePooling(Sequence& sequence, std::string name, dnnl::memory source)
    : sequence_(sequence), name_(std::move(name)), source_(std::move(source)) {
  Dims dims = source_.get_desc().dims();
  dims[2] /= 2, dims[3] /= 2;
  forward_.emplace(
      dnnl::pooling_forward::desc(dnnl::prop_kind::forward_training, dnnl::algorithm::pooling_avg,
                                  source_.get_desc(), describe(dims, Tag::nhwc), kTwo, kTwo,
                                  kNoPadding, kNoPadding),
      Sequence::attributes(), sequence_.engine());
  output_ = sequence_.allocate(forward_->dst_desc());
  sequence_.add(name_ + " forward", *forward_, dnnl::pooling_forward(*forward_),
                {{DNNL_ARG_SRC, source_}, {DNNL_ARG_DST, output_}});
}

void AveragePooling::backward(dnnl::memory output_gradient, dnnl::memory source_gradient) {
  const dnnl::pooling_backward::primitive_desc desc(
      {dnnl::algorithm::pooling_avg, source_gradient.get_desc(), output_gradient.get_desc(), kTwo,
       kTwo, kNoPadding, kNoPadding},
      Sequence::attributes(), sequence_.engine(), *forward_);
  sequence_.add(name_ + " backward", desc, dnnl::pooling_backward(desc),
                {{DNNL_ARG_DIFF_DST, output_gradient}, {DNNL_ARG_DIFF_SRC, source_gradient}});
}

void add_cross_entropy(Sequence& sequence, dnnl::memory logits, dnnl::memory gradient,
                       const std::vector<int>& labels, float* loss) {
  sequence.add("softmax cross-entropy", [logits, gradient, &labels, loss] {
    const Dims dims = logits.get_desc().dims();
    const float scale = 1.0f / static_cast<float>(dims[0]);
    float sum = 0;
    for (int64_t row = 0; row < dims[0]; ++row) {
      const int64_t offset = row * dims[1];
      sum += cross_entropy_row(floats(logits) + offset, dims[1], labels[row], scale,
                               floats(gradient) + offset);
    }
    *loss = sum * scale;
  });
}

std::vector<int> random_labels(int64_t count, int classes) {
  std::mt19937 generator(7);
  std::uniform_int_distribution<int> uniform(0, classes - 1);
  std::vector<int> result(count);
  std::generate(result.begin(), result.end(), [&] { return uniform(generator); });
  return result;
}

}  // namespace bench
