// Compares the gradients of small graphs with central differences, through all passes, on the
// reference in float64.
#include "runtime/graph/autodiff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "rt/sdk/post_ops.h"
#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/graph/loss_operations.h"
#include "runtime/graph/open_nodes.h"
#include "runtime/graph/operation.h"
#include "runtime/graph/rules.h"
#include "runtime/graph/scanner.h"
#include "runtime/graph/signature.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using test::GraphRun;
using test::Numbers;

// Central differences of a float64 loss of about 1 have a rounding error of 1e-16 / kStep and a
// truncation error of kStep^2.
constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-7;

// A graph under construction, whose parameters are differentiated.
class GradientTest : public testing::Test {
 protected:
  GradientTest() { build_.layer = "test"; }

  ValueId parameter(const std::string& name, const Dims& dims, double low = -1, double high = 1) {
    const ValueId v = test::add_value(graph_, name, ValueKind::kParameter, dims);
    parameters_.push_back(v);
    numbers_[v] = test::random_numbers(element_count(dims), 7 * parameters_.size() + 1, low, high);
    return v;
  }
  ValueId constant(const std::string& name, Dims dims, Numbers numbers,
                   rt_dtype dtype = RT_FLOAT64) {
    const ValueId v = test::add_value(graph_, name, ValueKind::kState, std::move(dims), dtype);
    numbers_[v] = std::move(numbers);
    return v;
  }
  // A sum in which every element of x has another weight, so that no error cancels.
  ValueId weighted_sum(ValueId x) {
    const Dims dims = graph_.value(x).dims;
    const int64_t n = element_count(dims);
    const ValueId w = constant("weights of the sum" + std::to_string(graph_.values.size()), {1, n},
                               test::random_numbers(n, 99, 0.1, 1));
    return graph_.reshape(
        build_.reduce(build_.multiply(graph_.reshape(x, {1, n}), w), RT_REDUCE_SUM, 0b10), {1});
  }

  double loss_at(GraphRun& run, ValueId loss) {
    run.run();
    return run.get(loss)[0];
  }

  // Differentiates the loss and compares every element of every parameter's gradient.
  void expect_gradients(ValueId loss) {
    const ValueId one = constant("one", {1}, {1.0});
    const auto gradients = differentiate(graph_, loss, one, parameters_);
    ASSERT_EQ(gradients.size(), parameters_.size());
    std::map<ValueId, ValueId> outputs;
    for (const auto& [v, g] : gradients) {
      EXPECT_EQ(graph_.value(g).dims, graph_.value(v).dims);
      outputs[v] = test::add_output(graph_, g, "d" + graph_.value(v).name);
    }
    const ValueId loss_out = test::add_output(graph_, loss, "loss");
    GraphRun run(graph_, test::open_device("reference"));
    for (const auto& [v, numbers] : numbers_) run.set(v, numbers);
    loss_at(run, loss_out);
    std::map<ValueId, Numbers> found;  // all gradients are read before any parameter changes
    for (const auto& [v, out] : outputs) found[v] = run.get(out);
    for (const auto& [v, gradient] : found) {
      Numbers expected(gradient.size()), x = numbers_[v];
      for (size_t i = 0; i < x.size(); ++i) {
        const double at = x[i];
        x[i] = at + kStep;
        run.set(v, x);
        const double above = loss_at(run, loss_out);
        x[i] = at - kStep;
        run.set(v, x);
        expected[i] = (above - loss_at(run, loss_out)) / (2 * kStep);
        x[i] = at;
      }
      run.set(v, x);
      double norm = 0;
      for (double e : expected) norm += e * e;
      EXPECT_GT(norm, 0) << graph_.value(v).name << " does not matter: nothing is tested";
      EXPECT_LT(test::relative_error(gradient, expected), kTolerance) << graph_.value(v).name;
    }
  }

  Graph graph_;
  Build build_{graph_};
  std::vector<ValueId> parameters_;
  std::map<ValueId, Numbers> numbers_;
};

TEST_F(GradientTest, ConvolutionWithBiasReluAndPooling) {
  const ValueId x = parameter("x", {2, 7, 6, 4});
  Convolution c;
  c.stride_h = 2;
  c.padding = {1, 0, 2, 1};
  c.groups = 2;
  const ValueId w = parameter("w", {6, 3, 2, 2}), b = parameter("b", {6});
  const ValueId y = build_.activation(build_.add(build_.conv2d(x, w, c), b), RT_ACTIVATION_RELU);
  Pooling max{2, 2, 1, 2, {1, 0, 0, 1}, true};
  Pooling average{2, 2, 1, 1, {1, 0, 0, 1}, false};
  expect_gradients(weighted_sum(build_.avg_pool2d(build_.max_pool2d(y, max), average)));
}

TEST_F(GradientTest, DilatedConvolutionAndGlobalAveragePool) {
  const ValueId x = parameter("x", {2, 6, 6, 2}), w = parameter("w", {3, 2, 2, 2});
  Convolution c;
  c.dilation_h = 2;
  c.dilation_w = 3;
  expect_gradients(weighted_sum(build_.global_avg_pool(build_.conv2d(x, w, c))));
}

TEST_F(GradientTest, ResidualBlockWithBatchNorm) {
  const ValueId x = parameter("x", {3, 4, 4, 2}), w = parameter("w", {2, 3, 3, 2});
  const ValueId gamma = parameter("gamma", {2}, 0.5, 1.5), beta = parameter("beta", {2});
  const ValueId mean = constant("mean", {2}, {0, 0}), var = constant("var", {2}, {1, 1});
  Convolution c;
  c.padding = {1, 1, 1, 1};
  const ValueId y = build_.batch_norm(build_.conv2d(x, w, c), gamma, beta, mean, var, 1e-3, 0.1);
  const ValueId sum = build_.activation(build_.add(y, x), RT_ACTIVATION_TANH);
  expect_gradients(weighted_sum(sum));
}

// The gradient that reaches the normalisation is zero in padded rows, as the gradient of a loss is.
TEST_F(GradientTest, BatchNormInPartsWithAPaddedRow) {
  const ValueId x = parameter("x", {4, 3, 3, 2}), w = parameter("w", {2, 3, 3, 2});
  const ValueId gamma = parameter("gamma", {2}, 0.5, 1.5), beta = parameter("beta", {2});
  const ValueId mean = constant("mean", {2}, {0, 0}), var = constant("var", {2}, {1, 1});
  const ValueId weight = constant("weight", {4}, {0.5, 0, 0.25, 0.25});
  Convolution c;
  c.padding = {1, 1, 1, 1};
  const ValueId y =
      build_.batch_norm_in_parts(build_.conv2d(x, w, c), weight, gamma, beta, mean, var, 1e-3, 0.1);
  const ValueId sum = build_.activation(build_.add(y, x), RT_ACTIVATION_TANH);
  const ValueId real = constant("real", {4, 1, 1, 1}, {1, 0, 1, 1});
  expect_gradients(weighted_sum(build_.multiply(sum, real)));
}

TEST_F(GradientTest, BatchNormAppliedToOtherMomentsHasNone) {
  const ValueId x = parameter("x", {4, 2}), gamma = parameter("gamma", {2});
  const ValueId beta = parameter("beta", {2}), moments = constant("moments", {5}, {0, 0, 1, 1, 4});
  const ValueId y = build_.node1(RT_OP_BATCH_NORM_APPLY, {x, gamma, beta, moments}, {4, 2});
  const ValueId loss = weighted_sum(y), one = constant("one", {1}, {1});
  const std::string message =
      test::message_of<Error>([&] { differentiate(graph_, loss, one, {x}); });
  EXPECT_NE(message.find("without the batch_norm_statistics"), std::string::npos) << message;
}

TEST_F(GradientTest, LayerNormGeluAndLinearOnSequences) {
  const ValueId x = parameter("x", {2, 3, 4});
  const ValueId gamma = parameter("gamma", {4}, 0.5, 1.5), beta = parameter("beta", {4});
  const ValueId up = parameter("up", {5, 4}), bias = parameter("bias", {5});
  const ValueId n = build_.layer_norm(x, gamma, beta, 1e-3);
  const ValueId h = build_.add(build_.matmul(n, up, false, true), bias);
  const ValueId y = build_.add(build_.activation(h, RT_ACTIVATION_GELU),
                               build_.activation(h, RT_ACTIVATION_GELU_TANH));
  expect_gradients(weighted_sum(build_.activation(y, RT_ACTIVATION_SIGMOID)));
}

TEST_F(GradientTest, FunctionsWithoutABackwardOperation) {
  const ValueId a = parameter("a", {3, 4}, 0.5, 1), b = parameter("b", {2, 4}, 0.5, 1);
  ValueId sum = kNone;
  for (const int32_t f : rt::sdk::kForwardOnly) {
    if (f == RT_ACTIVATION_FLOOR) continue;  // differences across a jump are no derivative
    const ValueId own = parameter("own" + std::to_string(f), {3, 2}, 0.5, 1.5);
    const ValueId y = build_.activation(build_.multiply(build_.matmul(a, b, false, true), own), f);
    sum = sum == kNone ? y : build_.add(sum, y);
  }
  expect_gradients(weighted_sum(sum));
  for (const Node& n : graph_.nodes) EXPECT_NE(n.op, RT_OP_ACTIVATION_BACKWARD);
}

TEST_F(GradientTest, MatmulInAllTranspositions) {
  ValueId sum = kNone;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const std::string name = std::string(ta ? "t" : "n") + (tb ? "t" : "n");
      const ValueId a = parameter("a" + name, ta ? Dims{4, 3} : Dims{3, 4});
      const ValueId b = parameter("b" + name, tb ? Dims{2, 4} : Dims{4, 2});
      const ValueId c = build_.matmul(a, b, ta, tb);
      sum = sum == kNone ? c : build_.add(sum, build_.multiply(c, c));
    }
  }
  expect_gradients(weighted_sum(sum));
}

TEST_F(GradientTest, MatmulOfBatches) {
  const ValueId a = parameter("a", {2, 3, 4}), b = parameter("b", {2, 5, 4});
  const ValueId scores = build_.softmax(build_.matmul(a, b, false, true));  // [2, 3, 5]
  expect_gradients(weighted_sum(build_.matmul(scores, b)));
}

TEST_F(GradientTest, Attention) {
  const ValueId x = parameter("x", {2, 5, 4}), w = parameter("w", {12, 4});
  const ValueId qkv = build_.matmul(x, w, false, true);
  expect_gradients(build_.add(weighted_sum(build_.attention(qkv, 2, true)),
                              weighted_sum(build_.attention(qkv, 1, false))));
}

TEST_F(GradientTest, GatedActivations) {
  const ValueId gate = parameter("gate", {3, 4}), up = parameter("up", {3, 4});
  const ValueId swish = build_.gated_activation(gate, up, RT_ACTIVATION_SILU);
  const ValueId gelu = build_.gated_activation(gate, up, RT_ACTIVATION_GELU);
  expect_gradients(weighted_sum(build_.add(swish, gelu)));
}

TEST_F(GradientTest, Rotary) {
  const ValueId x = parameter("x", {2, 3, 10});
  const ValueId turns = constant("turns", {3, 4}, test::random_numbers(12, 5, -1, 1));
  expect_gradients(weighted_sum(build_.rotary(x, turns, 2)));
}

TEST_F(GradientTest, DotProductAttention) {
  const ValueId q = parameter("q", {2, 4, 8}), k = parameter("k", {2, 5, 4}),
                v = parameter("v", {2, 5, 6});
  const ValueId step = constant("step", {1}, {3}, RT_INT64);
  const ValueId base = constant("base", {1}, {7}, RT_INT64);
  const ValueId documents = constant(
      "documents", {2, 9}, {0, 0, 1, 1, 0, 1, 0, 1, 0, 2, -1, 2, 0, 2, 2, 2, -1, 0}, RT_INT32);
  const auto attend = [&](const DotProductAttention& a) {
    return weighted_sum(build_.dot_product_attention(q, k, v, a));
  };
  const ValueId plain = attend({.heads = 4, .key_heads = 2});
  const ValueId causal = attend({.heads = 4, .key_heads = 2, .causal = true, .window = 2});
  const ValueId masked = attend({.heads = 4,
                                 .key_heads = 2,
                                 .scale = 0.5,
                                 .probability = 0.25,
                                 .stream = 2,
                                 .step = step,
                                 .base = base,
                                 .documents = documents});
  expect_gradients(build_.add(plain, build_.add(causal, masked)));
}

TEST_F(GradientTest, Embedding) {
  const ValueId table = parameter("table", {5, 3});
  const ValueId tokens = constant("tokens", {2, 3}, {0, 4, 4, 1, 0, 2}, RT_INT32);
  const ValueId y = build_.embedding(tokens, table);
  expect_gradients(weighted_sum(build_.multiply(y, y)));
}

TEST_F(GradientTest, TransposeConcatSlicePad) {
  const ValueId a = parameter("a", {2, 3, 4}), b = parameter("b", {3, 2, 4});
  const ValueId t = build_.transpose(a, {1, 0, 2});       // [3, 2, 4]
  const ValueId turned = build_.transpose(t, {2, 0, 1});  // [4, 3, 2], not its own inverse
  const ValueId joined =
      build_.node1(RT_OP_CONCAT, {t, b, t}, {3, 6, 4}, {{RT_ATTR_AXIS, int64_t{1}}});
  const ValueId part = build_.node1(RT_OP_SLICE, {joined}, {3, 3, 4},
                                    {{RT_ATTR_AXIS, int64_t{1}}, {RT_ATTR_START, int64_t{1}}});
  const ValueId padded = build_.node1(RT_OP_PAD, {part}, {3, 6, 4},
                                      {{RT_ATTR_AXIS, int64_t{1}}, {RT_ATTR_START, int64_t{2}}});
  expect_gradients(build_.add(weighted_sum(build_.multiply(padded, joined)),
                              weighted_sum(build_.multiply(turned, turned))));
}

TEST_F(GradientTest, BroadcastAddAndMultiply) {
  const ValueId x = parameter("x", {2, 3, 4}), row = parameter("row", {4});
  const ValueId column = parameter("column", {3, 1}), batch = parameter("batch", {2, 1, 4});
  const ValueId scalar = parameter("scalar", {1});
  const ValueId y = build_.multiply(build_.add(build_.multiply(x, row), column), batch);
  expect_gradients(weighted_sum(build_.multiply(build_.add(scalar, y), y)));
}

TEST_F(GradientTest, ReduceSumAndMean) {
  const ValueId x = parameter("x", {2, 3, 4});
  const ValueId sum = build_.reduce(x, RT_REDUCE_SUM, 0b010);          // [2, 4]
  const ValueId mean = build_.reduce(x, RT_REDUCE_MEAN, 0b101, true);  // [1, 3, 1]
  const ValueId squares = build_.multiply(sum, sum);
  expect_gradients(build_.add(weighted_sum(squares), weighted_sum(build_.multiply(mean, mean))));
}

TEST_F(GradientTest, CrossEntropyWithL2) {
  const ValueId x = constant("x", {4, 3}, test::random_numbers(12, 5));
  const ValueId w = parameter("w", {5, 3});
  const ValueId labels = constant("labels", {4}, {0, 4, 2, 2}, RT_INT32);
  const ValueId weight = constant("weight", {4}, {0.5, 0.25, 0, 0.25});
  const ValueId loss = build_.cross_entropy(build_.matmul(x, w, false, true), labels, weight);
  expect_gradients(build_.add(loss, build_.scale(build_.square_sum(w), 0.01)));
}

TEST_F(GradientTest, MeanSquaredErrorThroughReshapes) {
  const ValueId w = parameter("w", {2, 6});
  const ValueId y =
      graph_.reshape(build_.activation(graph_.reshape(w, {3, 4}), RT_ACTIVATION_TANH), {4, 3});
  const ValueId target = constant("target", {4, 3}, test::random_numbers(12, 6));
  const ValueId weight = constant("weight", {4}, {0.25, 0.25, 0.4, 0.1});
  expect_gradients(build_.mean_squared_error(y, target, weight));
}

TEST_F(GradientTest, LossesThatAreRows) {
  const ValueId y = build_.scale(parameter("y", {4, 3}, -2, 2), 1.5);
  const ValueId weight = constant("weight", {4}, {0.25, 0, 0.4, 0.1});
  const ValueId targets = constant("targets", {4, 3}, test::random_numbers(12, 6));
  const ValueId shares =
      constant("shares", {4, 3}, {0.2, 0.3, 0.5, 1, 0, 0, 0.1, 0.9, 0, 0.4, 0.4, 0.2});
  config::Training training;
  training.huber_delta = 0.7;
  ValueId sum = build_.node1(kUniformCrossEntropy, {y, weight}, {1});
  for (const config::Loss& row : config::losses()) {
    if (row.formula.empty()) continue;
    std::vector<Attribute> attributes;
    for (const auto& [name, value] : attributes_of(row, training))
      attributes.push_back({name, value});
    const std::string op = std::string(kOwnOperation) + row.name;
    add_operation(graph_, make_open_loss(op, row.formula, row.gradient, attributes));
    const ValueId of = row.targets == config::Targets::kNumbers ? targets : shares;
    sum = build_.add(sum, build_.regression_loss(op, y, of, weight, std::move(attributes)));
  }
  expect_gradients(sum);
}

TEST_F(GradientTest, DropoutUsesTheSameMaskBackwards) {
  const ValueId x = parameter("x", {4, 8});
  const ValueId step = constant("step", {1}, {3}, RT_INT64);
  const ValueId base = constant("base", {1}, {64}, RT_INT64);
  const ValueId y = build_.dropout(x, step, base, 0.4, 11, 2);
  expect_gradients(weighted_sum(build_.multiply(y, y)));
}

TEST_F(GradientTest, AValueReadManyTimesGetsTheSum) {
  const ValueId x = parameter("x", {3, 3});
  const ValueId y = build_.matmul(x, build_.matmul(x, build_.add(x, x)));
  expect_gradients(weighted_sum(build_.multiply(y, x)));
}

TEST_F(GradientTest, WhatTheLossDoesNotDependOnIsLeftOut) {
  const ValueId used = parameter("used", {2}), unused = parameter("unused", {2});
  build_.add(unused, unused);
  const ValueId loss = weighted_sum(used);
  const auto gradients = differentiate(graph_, loss, constant("one", {1}, {1}), {used, unused});
  EXPECT_TRUE(gradients.contains(used));
  EXPECT_FALSE(gradients.contains(unused));
}

TEST_F(GradientTest, NoBackwardIsMadeForInputs) {
  const ValueId x = test::add_value(graph_, "x", ValueKind::kInput, {2, 5, 5, 1});
  const ValueId w = parameter("w", {2, 3, 3, 1});
  const ValueId loss = weighted_sum(build_.conv2d(x, w, {}));
  differentiate(graph_, loss, constant("one", {1}, {1}), {w});
  for (const Node& n : graph_.nodes) EXPECT_NE(n.op, RT_OP_CONV2D_BACKWARD_DATA);
}

TEST_F(GradientTest, Maximum) {
  const ValueId x = parameter("x", {2, 3, 4});
  const ValueId rows = build_.reduce(x, RT_REDUCE_MAX, 0b010);       // [2, 4]
  const ValueId all = build_.reduce(x, RT_REDUCE_MAX, 0b101, true);  // [1, 3, 1]
  const ValueId squares = build_.multiply(rows, rows);
  expect_gradients(build_.add(weighted_sum(squares), weighted_sum(build_.multiply(all, x))));
}

// Equivalent to: torch.amax.
TEST_F(GradientTest, EqualElementsShareTheGradientOfTheirMaximum) {
  const ValueId x = parameter("x", {1, 4});
  numbers_[x] = {3, 1, 3, 2};
  const ValueId loss = graph_.reshape(build_.reduce(x, RT_REDUCE_MAX, 0b10), {1});
  const ValueId one = constant("one", {1}, {1});
  const auto gradients = differentiate(graph_, loss, one, {x});
  const ValueId out = test::add_output(graph_, gradients.at(x), "dx");
  GraphRun run(graph_, test::open_device("reference"));
  for (const auto& [v, numbers] : numbers_) run.set(v, numbers);
  run.run();
  EXPECT_EQ(run.get(out), (Numbers{0.5, 0, 0.5, 0}));
}

TEST_F(GradientTest, DifferencesAndQuotients) {
  const ValueId a = parameter("a", {3, 4}), b = parameter("b", {4}, 0.5, 2);
  const ValueId c = parameter("c", {3, 1}, 0.5, 2);
  const auto binary = [&](const char* op, ValueId x, ValueId y) {
    return build_.node1(op, {x, y}, {3, 4});
  };
  const ValueId sum =
      binary(RT_OP_SUBTRACT, binary(RT_OP_DIVIDE, a, b), binary(RT_OP_DIVIDE, c, b));
  expect_gradients(weighted_sum(binary(RT_OP_SUBTRACT, binary(RT_OP_MULTIPLY, sum, sum), c)));
}

// Each name stands for a number; where there are no names, any dims will do. A weight [N,1] is
// stored as [N].
Dims dims_of(const SignatureOperand& operand) {
  if (!operand.shaped) return {2, 3};
  Dims dims;
  for (const ViewItem& item : operand.view) {
    if (item.takes != ViewItem::Takes::kNone) dims.push_back(2 + item.name[0] % 4);
  }
  return dims.empty() ? Dims{1} : dims;
}

// Whether a test can make operands of the row: dims of outputs follow from the names of its
// formula.
bool says_its_dims(const Operation& row) {
  if (row.formula.text.empty()) return false;
  const Signature signature = read_signature(row.formula);
  std::set<std::string> known;
  for (const SignatureOperand& operand : signature.inputs) {
    for (const ViewItem& item : operand.view) known.insert(item.name);
  }
  for (const SignatureOperand& operand : signature.outputs) {
    for (const ViewItem& item : operand.view) {
      if (item.takes != ViewItem::Takes::kNone && !known.contains(item.name)) return false;
    }
  }
  return true;
}

std::vector<std::string> with_backward_operation(bool says_dims) {
  std::vector<std::string> names;
  for (const Operation& row : operations()) {
    if (row.forward.gradient == backward_operation && says_its_dims(row) == says_dims)
      names.push_back(row.name);
  }
  return names;
}

// Every row that names `backward_operation` is tested by its signature, without a line here.
class GradientOf : public GradientTest, public testing::WithParamInterface<std::string> {};

TEST_P(GradientOf, IsItsBackwardOperation) {
  const Operation* const backward = find_operation(GetParam() + "_backward");
  ASSERT_NE(backward, nullptr);
  const std::vector<std::string> gradients = operand_names(backward->formula).outputs;
  const Signature signature = read_signature(find_operation(GetParam())->formula);
  std::map<std::string, ValueId> inputs;
  std::vector<ValueId> in, out;
  for (const SignatureOperand& operand : signature.inputs) {
    const Dims dims = dims_of(operand);
    const bool varies =
        std::find(gradients.begin(), gradients.end(), "d" + operand.name) != gradients.end();
    in.push_back(varies ? parameter(operand.name, dims, 0.2, 1.2)
                        : constant(operand.name, dims,
                                   test::random_numbers(element_count(dims), 5, 0.2, 1.2)));
    inputs[operand.name] = in.back();
  }
  for (const SignatureOperand& operand : signature.outputs) {
    const auto same = inputs.find(operand.name);  // it is updated in place
    out.push_back(same != inputs.end() ? same->second
                                       : test::add_value(graph_, "out " + operand.name,
                                                         ValueKind::kTemporary, dims_of(operand)));
  }
  std::vector<Attribute> attributes;
  for (const std::string& name : signature.attributes) {
    if (signature.defaults.at(name) == 0) attributes.push_back({name, 0.5});  // most have none
  }
  build_.node_into(GetParam(), in, out, attributes);
  expect_gradients(weighted_sum(out[0]));
}

INSTANTIATE_TEST_SUITE_P(Operations, GradientOf, testing::ValuesIn(with_backward_operation(true)),
                         [](const auto& info) { return info.param; });

// The others have a test above.
TEST(GradientOfOthers, HaveTestsOfTheirOwn) {
  EXPECT_THAT(with_backward_operation(false),
              testing::UnorderedElementsAre(RT_OP_MAX_POOL2D, RT_OP_AVG_POOL2D, RT_OP_CROSS_ENTROPY,
                                            RT_OP_ATTENTION, RT_OP_DOT_PRODUCT_ATTENTION,
                                            RT_OP_EMBEDDING, RT_OP_GATED_ACTIVATION));
}

Attribute number(const char* name, double value) { return {name, value}; }

// The layer of a plugin as a node, with the given texts.
class OpenGradientTest : public GradientTest {
 protected:
  ValueId open(const std::string& signature, const std::string& formula,
               const std::string& gradient, const std::vector<ValueId>& inputs,
               const std::vector<Attribute>& attributes = {}) {
    std::vector<std::string> names;
    for (const Attribute& a : attributes) names.push_back(a.name);
    add_operation(graph_,
                  make_open_operation({"test.layer", signature, formula}, gradient, false, names));
    return add_open_node(build_, "test.layer", inputs, attributes);
  }
};

TEST_F(OpenGradientTest, OfItsOwnFormula) {
  const ValueId x = parameter("x", {2, 3});
  expect_gradients(weighted_sum(open("x {beta} -> y", "y = x * sigmoid(beta * x)",
                                     "s = sigmoid(beta * x); dx = dy * (s + beta * (y - y * s))",
                                     {x}, {number("beta", 1.7)})));
}

TEST_F(OpenGradientTest, DerivedFromTheFormula) {
  const ValueId x = parameter("x", {2, 3, 4}), w = parameter("w", {4}, 0.5, 1.5);
  const ValueId y = open("x[R*,D] weight[D] {eps} -> y[R*,D]",
                         "y = x * reciprocal(sqrt(mean(x * x, 1) + eps)) * weight", "", {x, w},
                         {number("eps", 1e-3)});
  EXPECT_EQ(graph_.value(y).dims, (Dims{2, 3, 4}));
  expect_gradients(weighted_sum(build_.multiply(y, y)));
}

// Copies of elements, gates, quotients and a maximum in one formula.
TEST_F(OpenGradientTest, DerivedFromEveryKindOfStatement) {
  const ValueId x = parameter("x", {2, 6}), w = parameter("w", {5, 3});
  const ValueId y = open("x[R*,F] w[G,H] -> y[R*,G]",
                         "a[r<R, h<H] = x[r, h]; b[r<R, h<H] = x[r, H + h]; e = exp(a - max(a, 1));"
                         "s = e / sum(e, 1) - gate(a, b); y = (s * tanh(b) + relu(a)) @ w'",
                         "", {x, w});
  EXPECT_EQ(graph_.value(y).dims, (Dims{2, 5}));
  expect_gradients(weighted_sum(build_.multiply(y, y)));
}

// What a layer before it needs is the gradient of the composed nodes, too.
TEST_F(OpenGradientTest, OfALayerBetweenOthers) {
  const ValueId x = parameter("x", {3, 4}), w = parameter("w", {4, 4});
  const ValueId h = build_.activation(build_.matmul(x, w), RT_ACTIVATION_TANH);
  const ValueId y = open("x -> y", "y = x / (1 + x * x)", "", {h});
  expect_gradients(weighted_sum(build_.matmul(y, w)));
}

TEST_F(OpenGradientTest, IsRefusedWhereThePluginGivesNone) {
  const ValueId x = parameter("x", {3, 4});
  OpenOperation operation = make_open_operation({"test.layer", "x -> y", ""}, "", false, {});
  operation.shape = [](const std::vector<Dims>& inputs, rt_dtype, const std::vector<Attribute>&) {
    return inputs[0];
  };
  add_operation(graph_, operation);
  const ValueId loss = weighted_sum(add_open_node(build_, "test.layer", {x}, {}));
  const ValueId one = constant("one", {1}, {1});
  const std::string message =
      test::message_of<ConfigurationError>([&] { differentiate(graph_, loss, one, {x}); });
  EXPECT_NE(message.find("layer 'test': test.layer has no gradient"), std::string::npos) << message;
}

}  // namespace
}  // namespace runtime::graph
