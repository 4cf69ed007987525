// The training step of the MLP 784-1024-1024-10 at batch 256 as a bare sequence of oneDNN inner
// products, ReLU, loss and SGD: the same training as configs/bench_mlp.toml, without a framework.
//
//   bare_mlp [--steps N] [--threads T] [--layers] [--sgemm] [--plain-weights]

#include "tools/peers/bare_layers.h"

namespace {

using bench::Activation;
using bench::Tag;

constexpr int64_t kBatch = 256, kInputs = 784, kHidden = 1024;
constexpr int kClasses = 10;
constexpr float kRate = 0.01f;

}  // namespace

int main(int argc, char** argv) {
  const bench::Arguments arguments = bench::parse_arguments(argc, argv);
  const Tag matrix = arguments.plain ? Tag::nc : Tag::any;
  const std::vector<int> labels = bench::random_labels(kBatch, kClasses);
  float loss = 0;

  bench::Sequence s;
  const auto gradient_of = [&](const dnnl::memory& m) { return s.allocate(m.get_desc()); };
  const dnnl::memory image =
      s.allocate_random(bench::describe({kBatch, kInputs}, Tag::nc), Tag::nc, 1.0f);

  bench::LinearLayer fc1(
      s, {"fc1", {kHidden, kInputs}, matrix, {kBatch, kHidden}, Tag::nc, Activation::kRelu}, image);
  bench::LinearLayer fc2(
      s, {"fc2", {kHidden, kHidden}, matrix, {kBatch, kHidden}, Tag::nc, Activation::kRelu},
      fc1.output());
  bench::LinearLayer fc3(
      s, {"fc3", {kClasses, kHidden}, matrix, {kBatch, kClasses}, Tag::nc, Activation::kNone},
      fc2.output());

  const dnnl::memory d_logits = gradient_of(fc3.output()), d_fc2 = gradient_of(fc2.output()),
                     d_fc1 = gradient_of(fc1.output());
  bench::add_cross_entropy(s, fc3.output(), d_logits, labels, &loss);
  fc3.backward(d_logits, d_fc2);
  fc2.backward(d_fc2, d_fc1);
  fc1.backward(d_fc1, {});
  for (auto* layer : {&fc1, &fc2, &fc3}) layer->update(kRate);

  bench::report(s, arguments, kBatch, loss);
}
