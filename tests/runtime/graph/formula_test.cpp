// Formulas as text: what they compute, and what is wrong with them. That every row of the table
// gives the right numbers is tested by tests/runtime/exec/compositions_test.cpp.
#include "runtime/graph/formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/error.h"
#include "runtime/graph/compositions.h"
#include "runtime/graph/constant.h"
#include "tests/runtime/graph/fake_target.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using test::GraphRun;
using test::Numbers;
using testing::ElementsAre;
using testing::HasSubstr;

// The numbers that a formula "x[A,B] -> y[P,Q]" gives for x = 0, 1, 2, ...
Numbers computed(const std::string& text, const Dims& x_dims, const Dims& y_dims,
                 std::vector<Attribute> attributes = {}) {
  Graph graph;
  Build build(graph);
  build.layer = "formula";
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, x_dims);
  const ValueId y = test::add_value(graph, "y", ValueKind::kOutput, y_dims);
  Node node;
  node.op = "test";
  node.inputs = {x};
  node.outputs = {y};
  node.attributes = std::move(attributes);
  expand(build, node, {"test", "x[A,B] {some=3} -> y[P,Q]", text});
  GraphRun run(graph, test::open_device("reference"));
  Numbers numbers(element_count(x_dims));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
  run.set(x, numbers);
  run.run();
  return run.get(y);
}

std::string fault_of(const std::string& text) {
  return test::message_of<InternalError>([&] { computed(text, {2, 2}, {2, 2}); });
}

TEST(Formula, FollowsThePrecedenceOfArithmetic) {
  EXPECT_THAT(computed("y = 1 + x * 2 - -x / 4", {1, 3}, {1, 3}), ElementsAre(1, 3.25, 5.5));
  EXPECT_THAT(computed("t = 6 / (A + B); y = (x + 1) * t", {1, 2}, {1, 2}), ElementsAre(2, 4));
  EXPECT_THAT(computed("y = 12 / (x + 1)", {1, 3}, {1, 3}), ElementsAre(12, 6, 4));
}

TEST(Formula, ChoosesByANumberAndLooksOnlyAtThatSide) {
  EXPECT_THAT(computed("y = some ? x : unknown", {1, 2}, {1, 2}), ElementsAre(0, 1));
  EXPECT_THAT(computed("y = some ? unknown : x + 1", {1, 2}, {1, 2}, {{"some", int64_t{0}}}),
              ElementsAre(1, 2));
}

TEST(Formula, BroadcastsReducesAndMultipliesMatrices) {
  EXPECT_THAT(computed("y = x - mean(x, 0)", {2, 2}, {2, 2}), ElementsAre(-1, -1, 1, 1));
  EXPECT_THAT(computed("y = x @ x'", {2, 2}, {2, 2}), ElementsAre(1, 3, 3, 13));
  EXPECT_THAT(computed("y = gate(x, x - 1)", {2, 2}, {2, 2}), ElementsAre(0, 0, 2, 3));
}

TEST(Formula, CopiesElementsWithZerosOutside) {
  EXPECT_THAT(computed("y[p<P, q<Q] = x[p, 2 * q - 1]", {1, 4}, {1, 3}), ElementsAre(0, 1, 3));
  EXPECT_THAT(computed("y[q<2, p<3] = x[p, q]", {3, 2}, {2, 3}), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(Formula, AddsElementsUp) {
  EXPECT_THAT(computed("x[a<A, b<B] => y[0, a + b]", {2, 2}, {1, 3}), ElementsAre(0, 3, 3));
  EXPECT_THAT(computed("x[a<A, b<B] => y[a, b]; x[a<A, b<B] => y[a, b + 1]", {1, 2}, {1, 3}),
              ElementsAre(0, 1, 1));
}

TEST(Formula, CountsPositions) {
  EXPECT_THAT(computed("r[b<B] = B - 2 * b; y = x * 0 + r", {1, 3}, {1, 3}), ElementsAre(3, 1, -1));
}

TEST(Formula, AFaultNamesTheOperationAndThePlace) {
  EXPECT_THAT(fault_of("y = x +"), HasSubstr("the formula of test expected a name at ''"));
  EXPECT_THAT(fault_of("y = z"), HasSubstr("does not know 'z'"));
  EXPECT_THAT(fault_of("y = other(x)"), HasSubstr("does not know the function 'other'"));
  EXPECT_THAT(fault_of("y = x x"), HasSubstr("expected ';' at 'x'"));
  EXPECT_THAT(fault_of("y = 3"), HasSubstr("gives a number for 'y'"));
  EXPECT_THAT(fault_of("y = x ? x : x"), HasSubstr("chooses by a tensor"));
  EXPECT_THAT(fault_of("y[a<2, b<2] = x[a * b, 0]"), HasSubstr("multiplies two loop variables"));
  EXPECT_THAT(fault_of("y[a<2, b<2] = x[a]"), HasSubstr("wrong number of indices"));
}

TEST(Formula, ElementsThatLieSideBySideAreCopiedAsRows) {
  Graph graph;
  Build build(graph);
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {4, 3, 8});
  const ValueId y = test::add_value(graph, "y", ValueKind::kOutput, {2, 3, 8});
  Node node;
  node.op = RT_OP_SLICE;
  node.inputs = {x};
  node.outputs = {y};
  node.attributes = {{RT_ATTR_AXIS, int64_t{0}}, {RT_ATTR_START, int64_t{1}}};
  expand(build, node, *find_formula(RT_OP_SLICE));
  ASSERT_EQ(operations(graph), "embedding");
  EXPECT_EQ(graph.value(graph.nodes[0].inputs[1]).dims, (Dims{4, 24}));
  EXPECT_THAT(graph.value(graph.nodes[0].inputs[0]).contents->elements(), ElementsAre(1, 2));
}

TEST(Compositions, EveryNameOccursOnce) {
  std::set<std::string> names;
  for (const Formula& row : compositions()) EXPECT_TRUE(names.insert(row.op).second) << row.op;
}

}  // namespace
}  // namespace runtime::graph
