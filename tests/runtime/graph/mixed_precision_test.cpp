// Checks which values the pass makes 16-bit and which stay float32, gradients included.
#include "runtime/graph/mixed_precision.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/graph/autodiff.h"
#include "runtime/graph/build.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

class MixedPrecisionTest : public testing::Test {
 protected:
  ValueId value(const std::string& name, ValueKind kind, Dims dims, rt_dtype dtype = RT_FLOAT32) {
    return test::add_value(graph_, name, kind, std::move(dims), dtype);
  }
  ValueId input(Dims dims) { return value("features", ValueKind::kInput, std::move(dims)); }
  ValueId parameter(const std::string& name, Dims dims) {
    return value(name, ValueKind::kParameter, std::move(dims));
  }
  ValueId cross_entropy(ValueId logits) {
    build_.layer = "loss";
    const Dims dims = graph_.value(logits).dims, rows(dims.begin(), dims.end() - 1);
    return build_.cross_entropy(logits, value("labels", ValueKind::kInput, rows, RT_INT32),
                                value("weight", ValueKind::kInput, rows));
  }
  void narrow() { narrow_activations(graph_, RT_BFLOAT16); }
  rt_dtype type(ValueId v) const { return graph_.value(v).dtype; }
  const Node& node(const std::string& op) const {
    return *std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                         [&](const Node& n) { return n.op == op; });
  }
  // The types of a node's inputs.
  std::vector<rt_dtype> inputs(const std::string& op) const {
    std::vector<rt_dtype> types;
    for (ValueId v : node(op).inputs) types.push_back(type(v));
    return types;
  }
  int count(const std::string& op) const {
    return static_cast<int>(std::count_if(graph_.nodes.begin(), graph_.nodes.end(),
                                          [&](const Node& n) { return n.op == op; }));
  }

  using Types = std::vector<rt_dtype>;
  Graph graph_;
  Build build_{graph_};
};

TEST_F(MixedPrecisionTest, ProductsAre16BitsAndTheLossIsFloat32) {
  build_.layer = "fc";
  const ValueId w = parameter("w", {3, 4}), b = parameter("b", {3});
  const ValueId x = build_.activation(graph_.reshape(input({2, 2, 2}), {2, 4}), RT_ACTIVATION_RELU);
  const ValueId y = build_.add(build_.matmul(x, w, false, true), b);
  const ValueId loss = cross_entropy(graph_.reshape(y, {2, 1, 3}));
  narrow();
  EXPECT_EQ(inputs(RT_OP_ACTIVATION), Types{RT_BFLOAT16});
  EXPECT_EQ(inputs(RT_OP_MATMUL), (Types{RT_BFLOAT16, RT_BFLOAT16}));
  EXPECT_EQ(inputs(RT_OP_ADD), (Types{RT_BFLOAT16, RT_BFLOAT16}));
  EXPECT_EQ(inputs(RT_OP_CROSS_ENTROPY), (Types{RT_BFLOAT16, RT_INT32, RT_FLOAT32}));
  EXPECT_EQ(type(loss), RT_FLOAT32);
  EXPECT_EQ(type(w), RT_FLOAT32);
  EXPECT_EQ(graph_.value(y).bytes, 2u * 3 * 2);
  EXPECT_EQ(count(RT_OP_CAST), 3) << "of the features, the weight and the bias";
  const auto gradients = differentiate(graph_, loss, value("one", ValueKind::kState, {1}), {w, b});
  EXPECT_EQ(type(gradients.at(w)), RT_FLOAT32);
  EXPECT_EQ(type(gradients.at(b)), RT_FLOAT32);
  EXPECT_EQ(inputs(RT_OP_CROSS_ENTROPY_BACKWARD),
            (Types{RT_BFLOAT16, RT_INT32, RT_FLOAT32, RT_FLOAT32}));
}

TEST_F(MixedPrecisionTest, NormalisationsKeepTheirParametersAndStatistics) {
  build_.layer = "norm";
  const ValueId gamma = parameter("gamma", {4}), beta = parameter("beta", {4});
  const ValueId mean = value("mean", ValueKind::kState, {4}),
                var = value("var", ValueKind::kState, {4});
  ValueId x = build_.layer_norm(input({2, 4}), gamma, beta, 1e-5);
  x = build_.batch_norm(x, gamma, beta, mean, var, 1e-5, 0.1);
  x = build_.batch_norm_in_parts(x, value("rows", ValueKind::kInput, {2}), gamma, beta, mean, var,
                                 1e-5, 0.1);
  const ValueId loss = cross_entropy(x);
  narrow();
  const Types five = {RT_BFLOAT16, RT_FLOAT32, RT_FLOAT32, RT_FLOAT32, RT_FLOAT32};
  EXPECT_EQ(inputs(RT_OP_BATCH_NORM), five);
  EXPECT_EQ(inputs(RT_OP_LAYER_NORM), Types(five.begin(), five.begin() + 3));
  EXPECT_EQ(inputs(RT_OP_BATCH_NORM_STATISTICS), (Types{RT_BFLOAT16, RT_FLOAT32}));
  EXPECT_EQ(type(node(RT_OP_BATCH_NORM_STATISTICS).outputs[0]), RT_FLOAT32);
  EXPECT_EQ(type(node(RT_OP_BATCH_NORM_MERGE).outputs[0]), RT_FLOAT32);
  EXPECT_EQ(inputs(RT_OP_BATCH_NORM_APPLY), Types(five.begin(), five.begin() + 4));
  EXPECT_EQ(type(x), RT_BFLOAT16);
  const auto gradients =
      differentiate(graph_, loss, value("one", ValueKind::kState, {1}), {gamma, beta});
  EXPECT_EQ(type(gradients.at(gamma)), RT_FLOAT32);
  EXPECT_EQ(type(gradients.at(beta)), RT_FLOAT32);
  EXPECT_EQ(type(node(RT_OP_LAYER_NORM_BACKWARD).outputs[1]), RT_FLOAT32);
  EXPECT_EQ(type(node(RT_OP_BATCH_NORM_BACKWARD_STATISTICS).outputs[0]), RT_FLOAT32);
  EXPECT_EQ(type(node(RT_OP_BATCH_NORM_BACKWARD_APPLY).outputs[0]), RT_BFLOAT16);
}

TEST_F(MixedPrecisionTest, TokensStayWholeNumbersAndEachLayerCastsATiedTable) {
  const ValueId table = parameter("table", {9, 4});
  build_.layer = "wte";
  const ValueId x = build_.embedding(build_.cast(input({2, 3}), RT_INT32), table);
  build_.layer = "head";
  const ValueId loss = cross_entropy(build_.matmul(x, table, false, true));
  narrow();
  EXPECT_EQ(inputs(RT_OP_EMBEDDING), (Types{RT_INT32, RT_BFLOAT16}));
  EXPECT_EQ(inputs(RT_OP_MATMUL), (Types{RT_BFLOAT16, RT_BFLOAT16}));
  EXPECT_NE(node(RT_OP_EMBEDDING).inputs[1], node(RT_OP_MATMUL).inputs[1]);
  std::vector<std::string> layers;
  for (const Node& n : graph_.nodes) {
    if (n.op == RT_OP_CAST) layers.push_back(n.layer);
  }
  EXPECT_EQ(layers, (std::vector<std::string>{"wte", "wte", "head"}));
  const auto gradients = differentiate(graph_, loss, value("one", ValueKind::kState, {1}), {table});
  EXPECT_EQ(type(gradients.at(table)), RT_FLOAT32) << "added up in float32";
}

TEST_F(MixedPrecisionTest, PenaltiesAndTargetsAreFloat32) {
  build_.layer = "fc";
  const ValueId w = parameter("w", {3, 4});
  const ValueId y = build_.matmul(input({2, 4}), w, false, true);
  build_.layer = "loss";
  const ValueId error = build_.mean_squared_error(y, value("targets", ValueKind::kInput, {2, 3}),
                                                  value("weight", ValueKind::kInput, {2}));
  const ValueId loss = build_.add(error, build_.scale(build_.square_sum(w), 0.1));
  narrow();
  EXPECT_EQ(inputs(RT_OP_MEAN_SQUARED_ERROR), (Types{RT_FLOAT32, RT_FLOAT32, RT_FLOAT32}));
  EXPECT_EQ(inputs(RT_OP_SQUARE_SUM), Types{RT_FLOAT32});
  EXPECT_EQ(inputs(RT_OP_SCALE), Types{RT_FLOAT32});
  EXPECT_EQ(inputs(RT_OP_ADD), (Types{RT_FLOAT32, RT_FLOAT32}));
  EXPECT_EQ(type(y), RT_BFLOAT16);
  const auto gradients = differentiate(graph_, loss, value("one", ValueKind::kState, {1}), {w});
  EXPECT_EQ(type(gradients.at(w)), RT_FLOAT32);
}

TEST_F(MixedPrecisionTest, RanksExchange16BitActivations) {
  build_.layer = "row";
  const ValueId y = build_.matmul(input({2, 4}), parameter("w", {3, 4}), false, true);
  const ValueId sum = build_.all_reduce(y, 0);
  const ValueId part =
      build_.node1(RT_OP_CROSS_ENTROPY_STATISTICS,
                   {sum, value("labels", ValueKind::kInput, {2}, RT_INT32)}, {1, 2, 4});
  const ValueId all = build_.all_gather(part, 2, 0);
  narrow();
  EXPECT_EQ(type(sum), RT_BFLOAT16);
  EXPECT_EQ(type(part), RT_FLOAT32);
  EXPECT_EQ(type(all), RT_FLOAT32);
}

}  // namespace
}  // namespace runtime::graph
