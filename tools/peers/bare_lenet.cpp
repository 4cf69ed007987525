// LeNet's whole training step at batch 256 as a bare sequence of oneDNN primitives, channels last:
// the same training as configs/bench_lenet.toml, without a framework, data loading or a plan.
//
//   bare_lenet [--steps N] [--threads T] [--layers] [--sgemm] [--plain-weights]

#include "tools/peers/bare_layers.h"

namespace {

using bench::Activation;
using bench::Tag;

constexpr int64_t kBatch = 256;
constexpr int kClasses = 10;
constexpr float kRate = 0.01f;

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments = bench::parse_arguments(argc, argv);
  const Tag filters = arguments.plain ? Tag::nchw : Tag::any;
  const Tag matrix = arguments.plain ? Tag::nc : Tag::any;
  const std::vector<int> labels = bench::random_labels(kBatch, kClasses);
  float loss = 0;

  bench::Sequence s;
  const auto gradient_of = [&](const dnnl::memory& m) { return s.allocate(m.get_desc()); };
  const dnnl::memory image =
      s.allocate_random(bench::describe({kBatch, 1, 28, 28}, Tag::nhwc), Tag::nchw, 1.0f);

  bench::ConvolutionLayer conv1(
      s, {"conv1", {20, 1, 3, 3}, filters, {kBatch, 20, 26, 26}, Tag::nhwc, Activation::kRelu},
      image);
  bench::AveragePooling pool1(s, "pool1", conv1.output());
  bench::ConvolutionLayer conv2(
      s, {"conv2", {50, 20, 5, 5}, filters, {kBatch, 50, 9, 9}, Tag::nhwc, Activation::kRelu},
      pool1.output());
  bench::AveragePooling pool2(s, "pool2", conv2.output());
  bench::LinearLayer fc1(
      s, {"fc1", {128, 50, 4, 4}, filters, {kBatch, 128}, Tag::nc, Activation::kRelu},
      pool2.output());
  bench::LinearLayer fc2(
      s, {"fc2", {kClasses, 128}, matrix, {kBatch, kClasses}, Tag::nc, Activation::kNone},
      fc1.output());

  const dnnl::memory d_logits = gradient_of(fc2.output()), d_fc1 = gradient_of(fc1.output()),
                     d_pool2 = gradient_of(pool2.output()), d_conv2 = gradient_of(conv2.output()),
                     d_pool1 = gradient_of(pool1.output()), d_conv1 = gradient_of(conv1.output());
  bench::add_cross_entropy(s, fc2.output(), d_logits, labels, &loss);
  fc2.backward(d_logits, d_fc1);
  fc1.backward(d_fc1, d_pool2);
  pool2.backward(d_pool2, d_conv2);
  conv2.backward(d_conv2, d_pool1);
  pool1.backward(d_pool1, d_conv1);
  conv1.backward(d_conv1, {});
  for (auto* layer : {&conv1, &conv2}) layer->update(kRate);
  for (auto* layer : {&fc1, &fc2}) layer->update(kRate);

  bench::report(s, arguments, kBatch, loss);
}
