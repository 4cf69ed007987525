// Split batch normalisation in a whole network: on one rank it computes the numbers of ordinary
// batch normalisation, and padded rows change nothing.
#include <gtest/gtest.h>

#include "runtime/graph/autodiff.h"
#include "runtime/model/layer_types.h"
#include "runtime/model/network.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::model {
namespace {

using graph::ValueId;
using graph::ValueKind;
using test::GraphRun;
using test::Numbers;

constexpr int64_t kPixels = 6 * 6;

// Batch normalisation after a convolution, at the end of a residual block, and after a linear
// layer.
const char* const kModel = R"(
dataset.name = "synthetic"
dataset.samples = 4
dataset.classes = 5
training.global_batch_size = 4
[model]
input = [1, 6, 6]
layers = [
  { type = "conv2d", channels = 3, kernel = 3, bias = false },
  { type = "batch_norm", activation = "relu" },
  { type = "residual", activation = "relu", layers = [
    { type = "conv2d", channels = 3, kernel = 3, padding = "same", bias = false }, { type = "batch_norm" } ] },
  { type = "flatten" },
  { type = "linear", features = 7, bias = false },
  { type = "batch_norm", activation = "tanh" },
  { type = "linear", features = 5 } ]
)";

// The rows of a batch: pixels, labels, the weights of the labels, and which rows are samples.
struct Batch {
  Numbers pixels, labels, weight, real;

  void add(const Numbers& row, double label, double label_weight) {
    pixels.insert(pixels.end(), row.begin(), row.end());
    labels.push_back(label);
    weight.push_back(label_weight);
    real.push_back(1);
  }
  void add_padding(const Numbers& row, double label) {
    add(row, label, 0);
    real.back() = 0;
  }
};

// Four samples; with `padded` there are padding rows between and behind them.
Batch samples(bool padded) {
  Batch b;
  for (uint64_t i = 0; i < 4; ++i) {
    if (padded && i == 2) b.add_padding(Numbers(kPixels, 9.0), 1);
    b.add(test::random_numbers(kPixels, i + 1), static_cast<double>(i), 0.25);
  }
  if (padded) b.add_padding(Numbers(kPixels, -9.0), 0);
  return b;
}

// Loss, gradients of all parameters and running statistics, by name, after one forward and backward
// pass.
std::map<std::string, Numbers> train(const Batch& batch, bool split, const char* backend,
                                     rt_dtype dtype) {
  NetworkOptions options;
  options.batch = static_cast<int64_t>(batch.labels.size());
  options.dtype = dtype;
  options.split_batch_norm = split;
  Network n = build_network(model_from_config(test::parse(kModel).model), options);
  EXPECT_EQ(n.real != graph::kNone, split);
  graph::Graph& g = n.graph;
  const graph::Dims rows = {options.batch};
  const ValueId weight = test::add_value(g, "weight", ValueKind::kInput, rows, dtype);
  const ValueId labels = test::add_value(g, "labels", ValueKind::kInput, rows, RT_INT32);
  const ValueId one = test::add_value(g, "one", ValueKind::kState, {1}, dtype);
  const ValueId loss = graph::Build(g).cross_entropy(n.output, labels, weight);
  std::vector<ValueId> wanted;
  std::map<std::string, ValueId> outputs;
  for (const Parameter& p : n.parameters) {
    if (p.trainable) wanted.push_back(p.value);
    if (!p.trainable) outputs[p.name] = p.value;
  }
  for (const auto& [v, gradient] : graph::differentiate(g, loss, one, wanted)) {
    const std::string name = "d " + g.value(v).name;
    outputs[name] = test::add_output(g, gradient, name);
  }
  outputs["loss"] = test::add_output(g, loss, "loss");

  GraphRun run(g, test::open_device(backend));
  for (size_t i = 0; i < n.parameters.size(); ++i) {
    const ValueId v = n.parameters[i].value;
    run.set(v, test::random_numbers(graph::element_count(g.value(v).dims), i + 10, 0.2, 1));
  }
  run.set(n.features, batch.pixels);
  run.set(labels, batch.labels);
  run.set(weight, batch.weight);
  if (split) run.set(n.real, batch.real);
  run.set(one, {1});
  run.run();
  std::map<std::string, Numbers> results;
  for (const auto& [name, v] : outputs) results[name] = run.get(v);
  return results;
}

void expect_close(const std::map<std::string, Numbers>& actual,
                  const std::map<std::string, Numbers>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  EXPECT_EQ(expected.size(), 18u);  // the loss, 11 gradients and 6 statistics
  for (const auto& [name, numbers] : expected) {
    EXPECT_LT(test::relative_error(actual.at(name), numbers), tolerance) << name;
  }
}

TEST(SplitBatchNorm, OneRankWithoutPaddingIsOrdinaryBatchNorm) {
  expect_close(train(samples(false), true, "reference", RT_FLOAT64),
               train(samples(false), false, "reference", RT_FLOAT64), 1e-12);
}

TEST(SplitBatchNorm, PaddedRowsDoNotMatter) {
  expect_close(train(samples(true), true, "reference", RT_FLOAT64),
               train(samples(false), false, "reference", RT_FLOAT64), 1e-12);
}

// As training.ignore_label gives it.
TEST(SplitBatchNorm, ASampleWhoseLabelHasTheWeight0IsNoPadding) {
  Batch ignored = samples(false), padded = samples(true);
  ignored.weight[1] = padded.weight[1] = 0;
  expect_close(train(padded, true, "reference", RT_FLOAT64),
               train(ignored, false, "reference", RT_FLOAT64), 1e-12);
}

// A batch of 4 in float32, whose sums have at most 64 terms.
TEST(SplitBatchNorm, PaddedRowsDoNotMatterOnCpu) {
  if (!test::has_backend("cpu")) GTEST_SKIP() << "the plugin cpu was not built";
  expect_close(train(samples(true), true, "cpu", RT_FLOAT32),
               train(samples(false), false, "reference", RT_FLOAT64), 1e-4);
}

TEST(SplitBatchNorm, ABatchOfPaddingChangesNothing) {
  Batch none;
  for (int i = 0; i < 3; ++i) none.add_padding(test::random_numbers(kPixels, i + 1), 0);
  for (const char* backend : {"reference", "cpu"}) {
    if (!test::has_backend(backend)) continue;
    for (const auto& [name, numbers] : train(none, true, backend, RT_FLOAT32)) {
      if (name.find("running") != std::string::npos) continue;
      for (const double number : numbers) EXPECT_EQ(number, 0) << backend << " " << name;
    }
  }
}

TEST(SplitBatchNorm, OnlyTrainingNeedsToKnowTheSamples) {
  NetworkOptions options;
  options.training = false;
  options.split_batch_norm = true;
  const Network n = build_network(model_from_config(test::parse(kModel).model), options);
  EXPECT_EQ(n.real, graph::kNone);
  for (const graph::Node& node : n.graph.nodes) EXPECT_NE(node.op, RT_OP_BATCH_NORM_STATISTICS);
}

}  // namespace
}  // namespace runtime::model
