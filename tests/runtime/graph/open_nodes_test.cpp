// Operations of plugins in graphs: shapes, results, and faults of their texts.
#include "runtime/graph/open_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "runtime/error.h"
#include "runtime/graph/autodiff.h"
#include "runtime/graph/lower.h"
#include "tests/runtime/graph/fake_target.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using test::GraphRun;
using test::Numbers;

struct Texts {
  std::string signature, formula, gradient;
};

// A graph with one node of the operation "test.op" for inputs of these dims.
struct OneNode {
  OneNode(const Texts& texts, const std::vector<Dims>& inputs,
          const std::vector<Attribute>& attributes = {}) {
    std::vector<std::string> names;
    for (const Attribute& a : attributes) names.push_back(a.name);
    add_operation(graph, make_open_operation({"test.op", texts.signature, texts.formula},
                                             texts.gradient, false, names));
    for (const Dims& dims : inputs)
      operands.push_back(
          test::add_value(graph, "in" + std::to_string(operands.size()), ValueKind::kInput, dims));
    Build build(graph);
    build.layer = "test";
    y = add_open_node(build, "test.op", operands, attributes);
  }
  const Dims& dims() const { return graph.value(y).dims; }

  Graph graph;
  std::vector<ValueId> operands;
  ValueId y = kNone;
};

TEST(OperationSet, ShapesFollowFromTheFormula) {
  EXPECT_EQ(OneNode({"x -> y", "y = x * 2", ""}, {{2, 3, 4}}).dims(), (Dims{2, 3, 4}));
  EXPECT_EQ(OneNode({"x[R*,D] -> y[R*,D]", "y = x - mean(x, 1)", ""}, {{2, 3, 4}}).dims(),
            (Dims{2, 3, 4}));
  EXPECT_EQ(OneNode({"x[R*,D] -> y[R*]", "y[R] = sum(x, 1)", ""}, {{2, 3, 4}}).dims(),
            (Dims{2, 3}));
  EXPECT_EQ(OneNode({"x[R*,D] w[F,D] -> y[R*,F]", "y = x @ w'", ""}, {{2, 3, 4}, {5, 4}}).dims(),
            (Dims{2, 3, 5}));
  EXPECT_EQ(OneNode({"x[N,H,W,C] {k} -> y[N,P,Q,C]",
                     "P = H / k; Q = W / k; y[n<N, p<P, q<Q, c<C] = x[n, k * p, k * q, c]", ""},
                    {{2, 6, 4, 3}}, {{"k", int64_t{2}}})
                .dims(),
            (Dims{2, 3, 2, 3}));
}

TEST(OperationSet, TheResultIsThatOfTheFormulaInALoop) {
  OneNode node(
      {"x[R*,D] w[D] {eps} -> y[R*,D]", "y = x * reciprocal(sqrt(mean(x * x, 1) + eps)) * w", ""},
      {{2, 3, 4}, {4}}, {{"eps", 0.25}});
  const ValueId out = test::add_output(node.graph, node.y, "y");
  GraphRun run(node.graph, test::open_device("reference"));
  const Numbers x = test::random_numbers(24, 1), w = test::random_numbers(4, 2);
  run.set(node.operands[0], x);
  run.set(node.operands[1], w);
  run.run();
  Numbers expected;
  for (size_t row = 0; row < 6; ++row) {
    double squares = 0;
    for (size_t i = 0; i < 4; ++i) squares += x[4 * row + i] * x[4 * row + i];
    for (size_t i = 0; i < 4; ++i)
      expected.push_back(x[4 * row + i] / std::sqrt(squares / 4 + 0.25) * w[i]);
  }
  EXPECT_LT(test::relative_error(run.get(out), expected), 1e-14);
  EXPECT_EQ(run.notes().size(), 1u) << "the composition is told";
}

TEST(OperationSet, FunctionsOfOneAndOfTwoElements) {
  OneNode node({"x[R*,D] w[D] -> y[R*,D]",
                "y = maximum(sin(x), w) + 2 * minimum(cos(x), w) + 4 * floor(3 * x)", ""},
               {{2, 3, 4}, {4}});
  const ValueId out = test::add_output(node.graph, node.y, "y");
  GraphRun run(node.graph, test::open_device("reference"));
  const Numbers x = test::random_numbers(24, 1), w = test::random_numbers(4, 2);
  run.set(node.operands[0], x);
  run.set(node.operands[1], w);
  run.run();
  Numbers expected;
  for (size_t i = 0; i < 24; ++i) {
    const double other = w[i % 4];
    expected.push_back(std::max(std::sin(x[i]), other) + 2 * std::min(std::cos(x[i]), other) +
                       4 * std::floor(3 * x[i]));
  }
  EXPECT_LT(test::relative_error(run.get(out), expected), 1e-14);
}

TEST(OperationSet, CopiesOfAGraphShareItAndAChangeDoesNotReachThem) {
  OneNode node({"x -> y", "y = x * 2", ""}, {{2}});
  const Graph copy = node.graph;
  EXPECT_EQ(copy.operations, node.graph.operations);
  add_operation(node.graph,
                make_open_operation({"test.other", "x -> y", "y = x + 1"}, "", false, {}));
  EXPECT_NE(node.graph.operations->find("test.other"), nullptr);
  EXPECT_EQ(copy.operations->find("test.other"), nullptr);
}

// ---- devices with kernels for it

// The operations of the plugin that are left when a step with gradients is lowered.
std::vector<std::string> left(const OpenOperation& operation, FakeTarget& target) {
  Graph graph;
  add_operation(graph, operation);
  const ValueId x = test::add_value(graph, "x", ValueKind::kParameter, {2, 3}, RT_FLOAT32);
  const ValueId one = test::add_value(graph, "one", ValueKind::kState, {1}, RT_FLOAT32);
  Build build(graph);
  const ValueId y = add_open_node(build, "test.op", {x}, {});
  const ValueId sum = graph.reshape(build.reduce(y, RT_REDUCE_SUM, 0b11), {1});
  test::add_output(graph, differentiate(graph, sum, one, {x}).at(x), "dx");
  lower(graph, target);
  std::vector<std::string> names;
  for (const Node& n : graph.nodes) {
    if (is_open(n.op)) names.push_back(n.op);
  }
  return names;
}

OpenOperation square(const std::string& gradient) {
  return make_open_operation({"test.op", "x -> y", "y = x * x"}, gradient, false, {});
}

using Names = std::vector<std::string>;

TEST(OpenKernels, RunWhatTheDeviceAcceptsAndTheCoreComposesTheRest) {
  FakeTarget all, no_forward, no_backward;
  no_forward.refuses = {"test.op"};
  no_backward.refuses = {"test.op_backward"};
  const OpenOperation operation = square("dx = 2 * dy * x");
  EXPECT_EQ(left(operation, all), (Names{"test.op", "test.op_backward"}));
  EXPECT_EQ(left(operation, no_forward), Names{"test.op_backward"});
  EXPECT_EQ(left(operation, no_backward), Names{"test.op"});
}

TEST(OpenKernels, ADerivedGradientIsThatOfTheComposedNodes) {
  FakeTarget all;
  EXPECT_EQ(left(square(""), all), Names{});
}

TEST(OpenKernels, WithoutAFormulaTheDeviceMustAcceptBoth) {
  OpenOperation operation = make_open_operation({"test.op", "x -> y", ""}, "", true, {});
  operation.shape = [](const std::vector<Dims>& inputs, rt_dtype, const std::vector<Attribute>&) {
    return inputs[0];
  };
  FakeTarget all, no_backward;
  no_backward.refuses = {"test.op_backward"};
  EXPECT_EQ(left(operation, all), (Names{"test.op", "test.op_backward"}));
  const std::string message = test::message_of<DeviceError>([&] { left(operation, no_backward); });
  EXPECT_NE(message.find("test.op_backward"), std::string::npos) << message;
}

struct Fault {
  Texts texts;
  const char* words;
};

// The input is x [2, 3, 4], the second one, where there is one, [4].
void expect_fault(const Fault& fault) {
  const size_t inputs = fault.texts.signature.find(" w") == std::string::npos ? 1 : 2;
  const std::string message = test::message_of<DeviceError>([&] {
    const OneNode node(
        fault.texts, inputs == 1 ? std::vector<Dims>{{2, 3, 4}} : std::vector<Dims>{{2, 3, 4}, {4}},
        {{"k", 0.5}});
  });
  const std::string of = fault.texts.formula + " | " + fault.texts.gradient + ": " + message;
  EXPECT_NE(message.find("plugin 'test': the formula of its operation 'op"), std::string::npos)
      << of;
  EXPECT_NE(message.find(fault.words), std::string::npos) << of;
}

TEST(OperationSet, FaultsOfTextsAreThePluginsAndNameThePlace) {
  const std::string s = "x {k} -> y";
  const std::vector<Fault> faults = {
      {{"x -> y", "y = x", ""}, "lacks the attribute 'k'"},
      {{"x {k z} -> y", "y = x", ""}, "has 'z' in braces"},
      {{"x {k} -> y z", "y = x", ""}, "has 2 outputs"},
      {{"{k} -> y", "y = 1", ""}, "has 0 inputs"},
      {{"x? {k} -> y", "y = x", ""}, "optional operand 'x'"},
      {{s, "y = x +", ""}, "expected a name at '', character 8"},
      {{s, "y = x z", ""}, "expected ';' at 'z'"},
      {{s, "y = unknown", ""}, "does not know 'unknown'"},
      {{s, "y = unknown(x)", ""}, "does not know the function 'unknown'"},
      {{s, "z = x", ""}, "does not know 'y'"},
      {{s, "y = k", ""}, "found a number"},
      {{s, "y = exp(k)", ""}, "found a number"},
      {{s, "y = x @ k", ""}, "multiplies a number by '@'"},
      {{s, "y = x' + x", ""}, "no factor of '@'"},
      {{s, "y = x ? x : x", ""}, "chooses by a tensor"},
      {{s, "y = sum(x, 3)", ""}, "reduces axis 3 of [2, 3, 4]"},
      {{s, "y = sum(x, 1e30)", ""}, "not finite or too large"},
      {{s, "y = x + fill(1, 5)", ""}, "which do not broadcast"},
      {{s, "y = fill(1, 1e9, 1e9)", ""}, "asks for a tensor"},
      {{s, "y[i<1e14] = i", ""}, "asks for a tensor"},
      {{s, "y = fill(1, 0 - 3)", ""}, "asks for a tensor"},
      {{s, "y = fill(1, 0 / 0)", ""}, "not finite or too large"},
      {{s, "y[1,1,1,1,1,1,1,1,24] = x", ""}, "asks for a tensor"},
      {{s, "y[5] = x", ""}, "cannot be computed"},
      {{s, "y[i<2] = x[i]", ""}, "wrong number of indices"},
      {{s, "x[i<2, j<3, l<4] => y[i, j, l]", ""}, "no output with known dims"},
      {{s, "y = " + std::string(3000, '(') + "x" + std::string(3000, ')'), ""},
       "nested too deeply"},
      {{s, "y = " + std::string(3000, '-') + "x", ""}, "nested too deeply"},
      {{s, "y = rows(x, x, 0)", ""}, "looks for rows in no matrix"},
      {{s, "t[6, 4] = x; y = rows(t, t, 0)", ""}, "by no whole numbers"},
      {{s, "y = dropout(x, x, x)", ""}, "expected host(bias_correction"},
      {{s, "y = host(cast, x, x)", ""}, "expected host(bias_correction"},
      {{"x[R*,D] w[E] {k} -> y[R*,E,1]", "y = x", ""}, "but its brackets are"},
      {{"x[R*,D] w[R] {k} -> y", "y = x", ""}, "does not fit input 1"},
      {{s, "y = x", "dz = dy"}, "does not give 'dx'"},
      {{s, "y = x", "dx = dy *"}, "expected a name"},
      {{s, "y = x", "dx = sum(dy, 0, 1, 2)"}, "cannot be computed"},
  };
  for (const Fault& fault : faults) expect_fault(fault);
}

// A text in which up to two places have become other pieces of the language, or any bytes.
std::string mutated(std::string text, std::mt19937& random) {
  static const std::vector<std::string> pieces = {
      "x",         "w",       "y",   "k",    "dy",   "R",          "=",      ";",        "+",
      "-",         "*",       "/",   "@",    "'",    "(",          ")",      "[",        "]",
      "<",         "=>",      ",",   "?",    ":",    "1",          "0",      "2",        "1e300",
      "9e18",      "sum",     "max", "gate", "fill", "rows",       "host",   "positive", "cast",
      "exp",       "softmax", "i",   "i<3",  "\xff", "batch_norm", "conv2d", "w[i]",     "y = x",
      "attention", "dropout", "{",   "}",    "->",   "with "};
  for (size_t n = random() % 3; n > 0; --n) {
    const size_t at = random() % (text.size() + 1);
    text.replace(at, random() % 3, pieces[random() % pieces.size()]);
  }
  return text;
}

// Each is computed or refused as the plugin's, and nothing else happens.
TEST(OperationSet, MutatedTextsAreComputedOrRefused) {
  const std::vector<std::string> signatures = {"x[R*,D] w[D] {k} -> y[R*,D]", "x w {k} -> y",
                                               "x[N,T,D] w[D] {k} -> y"};
  const std::vector<std::string> texts = {
      "y = x * reciprocal(sqrt(mean(x * x, 1) + k)) * w",
      "e = exp(x - max(x, 1)); y = e / sum(e, 1)",
      "a[r<2, i<3, j<2] = x[r, i, j + 2]; y = a * k",
      "P = 4 / 2; t[n<2, p<P, q<2, i<3] = x[n, i, 2 * p + q]; y[2, 12] = t",
      "y = gate(x, w) + positive(-x) * is_nan(x)",
      "y = k ? x + w : x' @ w",
      "t[1, 24] = x; y[2,3,4] = softmax(t)",
      "y = rows(fill(2, 5, 4), w, 0)",
      "y = layer_norm(x, w, w)"};
  std::mt19937 random(17);
  int computed = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string gradient =
        i % 3 == 0 ? mutated("dx = dy * w; dw = sum(dy * x, 0)", random) : "";
    const std::string& signature = signatures[random() % signatures.size()];
    try {
      OneNode node({random() % 4 == 0 ? mutated(signature, random) : signature,
                    mutated(texts[random() % texts.size()], random), gradient},
                   {{2, 3, 4}, {4}}, {{"k", 0.5}});
      expand_derived(node.graph);
      ++computed;
    } catch (const DeviceError&) {
      ++refused;
    }
  }
  EXPECT_GT(computed, 100);
  EXPECT_GT(refused, 100);
}

TEST(OperationSet, FlopsAreThoseOfTheFormula) {
  const OneNode node({"x[R*,D] w[F,D] -> y[R*,F]", "y = x @ w'", ""}, {{2, 3, 4}, {5, 4}});
  EXPECT_EQ(flops_of_node(node.graph, node.graph.nodes.at(0)), 2.0 * 6 * 4 * 5);
}

}  // namespace
}  // namespace runtime::graph
