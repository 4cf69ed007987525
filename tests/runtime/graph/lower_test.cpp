// Operations that a device refuses are composed from others, with the same results.
#include "runtime/graph/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/graph/autodiff.h"
#include "tests/runtime/graph/fake_target.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using test::GraphRun;
using test::Numbers;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kComposed =
    "global_avg_pool,global_avg_pool_backward,mean_squared_error,mean_squared_error_backward,"
    "square_sum";

// The loss mean((global_avg_pool(x) - target)^2) + 0.1 sum(x^2) and its gradient.
struct Result {
  Numbers loss, gradient;
  std::vector<std::string> notes;
  std::string operations;
};

Result run_on(const std::shared_ptr<plugins::host::Device>& device) {
  Graph graph;
  Build build(graph);
  build.layer = "head";
  const ValueId x = test::add_value(graph, "x", ValueKind::kParameter, {3, 2, 4, 5});
  const ValueId target = test::add_value(graph, "target", ValueKind::kInput, {3, 5});
  const ValueId weight = test::add_value(graph, "weight", ValueKind::kInput, {3});
  const ValueId one = test::add_value(graph, "one", ValueKind::kState, {1});
  const ValueId error = build.mean_squared_error(build.global_avg_pool(x), target, weight);
  const ValueId loss = build.add(error, build.scale(build.square_sum(x), 0.1));
  const ValueId gradient = differentiate(graph, loss, one, {x}).at(x);
  const ValueId loss_out = test::add_output(graph, loss, "loss");
  const ValueId gradient_out = test::add_output(graph, gradient, "gradient");
  GraphRun run(graph, device);
  run.set(x, test::random_numbers(120, 1));
  run.set(target, test::random_numbers(15, 2));
  run.set(weight, {0.5, 0.3, 0});
  run.set(one, {1});
  run.run();
  return {run.get(loss_out), run.get(gradient_out), run.notes(), operations(run.program().graph())};
}

TEST(Lower, ComposedOperationsGiveTheSameNumbers) {
  const Result whole = run_on(test::open_device("reference"));
  const Result composed =
      run_on(test::open_device("simulated", {{"refuse", kComposed}, {"poison", "true"}}));
  EXPECT_THAT(whole.operations, HasSubstr("global_avg_pool"));
  EXPECT_TRUE(whole.notes.empty());
  for (const char* op : {"global_avg_pool", "mean_squared_error", "square_sum"})
    EXPECT_THAT(composed.operations, Not(HasSubstr(op)));
  EXPECT_LT(test::relative_error(composed.loss, whole.loss), 1e-13);
  EXPECT_LT(test::relative_error(composed.gradient, whole.gradient), 1e-13);
  EXPECT_EQ(composed.notes.size(), 5u);
  for (const std::string& note : composed.notes)
    EXPECT_THAT(note, AllOf(HasSubstr("is composed of other operations"), HasSubstr("simulated:")));
}

TEST(Lower, ComposesEachOperationOnItsOwn) {
  const Result whole = run_on(test::open_device("reference"));
  for (const char* op : {"global_avg_pool", "global_avg_pool_backward", "mean_squared_error",
                         "mean_squared_error_backward", "square_sum"}) {
    const Result composed = run_on(test::open_device("simulated", {{"refuse", op}}));
    EXPECT_EQ(composed.notes.size(), 1u) << op;
    EXPECT_LT(test::relative_error(composed.loss, whole.loss), 1e-13) << op;
    EXPECT_LT(test::relative_error(composed.gradient, whole.gradient), 1e-13) << op;
  }
}

// The gradients of dot_product_attention of x, as q, k and v, with respect to x.
Result attend_on(const std::shared_ptr<plugins::host::Device>& device,
                 const DotProductAttention& form) {
  Graph graph;
  Build build(graph);
  build.layer = "attention";
  const ValueId x = test::add_value(graph, "x", ValueKind::kParameter, {2, 5, 6});
  const ValueId one = test::add_value(graph, "one", ValueKind::kState, {1});
  const ValueId y = build.dot_product_attention(x, build.scale(x, 2), build.scale(x, 3), form);
  const ValueId loss = build.square_sum(y);
  const ValueId gradient = differentiate(graph, loss, one, {x}).at(x);
  const ValueId loss_out = test::add_output(graph, loss, "loss");
  const ValueId gradient_out = test::add_output(graph, gradient, "gradient");
  GraphRun run(graph, device);
  run.set(x, test::random_numbers(60, 1));
  run.set(one, {1});
  run.run();
  return {run.get(loss_out), run.get(gradient_out), run.notes(), operations(run.program().graph())};
}

TEST(Lower, AttentionIsPackedForADeviceThatKnowsNoOtherForm) {
  for (const char* refused : {RT_OP_DOT_PRODUCT_ATTENTION, RT_OP_DOT_PRODUCT_ATTENTION_BACKWARD}) {
    const auto older = test::open_device("simulated", {{"refuse", refused}, {"poison", "true"}});
    const DotProductAttention plain{.heads = 2, .causal = true};
    const Result whole = attend_on(test::open_device("reference"), plain);
    const Result packed = attend_on(older, plain);
    EXPECT_THAT(packed.operations, Not(HasSubstr("dot_product")));
    EXPECT_THAT(packed.operations, HasSubstr("attention_backward"));
    EXPECT_LT(test::relative_error(packed.loss, whole.loss), 1e-13);
    EXPECT_LT(test::relative_error(packed.gradient, whole.gradient), 1e-13);
    ASSERT_EQ(packed.notes.size(), 1u);
    EXPECT_THAT(packed.notes[0], HasSubstr("dot_product_attention runs as attention: simulated:0"));
  }
}

TEST(Lower, AttentionWithoutAPackedFormIsComposed) {
  const DotProductAttention window{.heads = 2, .causal = true, .window = 2};
  const auto older = test::open_device(
      "simulated",
      {{"refuse", "dot_product_attention,dot_product_attention_backward"}, {"poison", "true"}});
  const Result whole = attend_on(test::open_device("reference"), window);
  const Result composed = attend_on(older, window);
  EXPECT_THAT(composed.operations, Not(HasSubstr("attention")));
  EXPECT_LT(test::relative_error(composed.loss, whole.loss), 1e-13);
  EXPECT_LT(test::relative_error(composed.gradient, whole.gradient), 1e-13);
  EXPECT_EQ(composed.notes.size(), 2u);
}

TEST(Lower, ARefusalNamesAllMissingOperationsAndWhatWouldDo) {
  Graph graph;
  Build build(graph);
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {1, 5, 5, 1});
  const ValueId w = test::add_value(graph, "w", ValueKind::kParameter, {1, 3, 3, 1});
  const ValueId table = test::add_value(graph, "table", ValueKind::kParameter, {5, 5});
  build.layer = "head";
  build.matmul(table, table);
  for (const char* layer : {"layer3.conv", "layer4.conv"}) {
    build.layer = layer;
    build.conv2d(x, w, {});
  }
  FakeTarget target;
  target.refuses = {RT_OP_CONV2D, RT_OP_MATMUL, RT_OP_EMBEDDING};
  EXPECT_EQ(test::message_of<DeviceError>([&] { lower(graph, target); }),
            "fake:0 lacks operations that this model needs:\n"
            "  embedding for layer 'layer3.conv' and 1 more, of which conv2d is composed: it is "
            "refused here\n"
            "  matmul for layer 'head' and 2 more: it is refused here\n"
            "a device that supports the base set of plugins/operations.md (the mandatory "
            "operations, embedding and embedding_backward, and exp, log, sqrt and reciprocal of "
            "activation) runs every model in float32 and float64; choose another device.backend "
            "(runtime devices lists them), or let another one run what this one refuses "
            "(device.host_fallback)");
}

TEST(Lower, ABatchThatIsTooLargeIsSaidWithTheRemedy) {
  Graph graph;
  Build build(graph);
  build.layer = "head";
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {65536, 4});
  const ValueId w = test::add_value(graph, "w", ValueKind::kParameter, {4, 32768});
  build.softmax(build.matmul(x, w));
  FakeTarget target;
  target.refuses = {RT_OP_MATMUL, RT_OP_SOFTMAX, RT_OP_REDUCE};
  const std::string text = test::message_of<DeviceError>([&] { lower(graph, target); });
  EXPECT_EQ(text.find("this batch does not fit fake:0: its tensors are larger than the kernels can "
                      "count:\n"),
            0u)
      << text;
  EXPECT_THAT(text, AllOf(HasSubstr("matmul for layer 'head': it is refused here"),
                          HasSubstr("reduce for layer 'head', of which softmax is composed"),
                          HasSubstr("set a smaller training.micro_batch_size"),
                          Not(HasSubstr("device.backend"))));
}

TEST(Lower, SixteenBitsAreNotComposed) {
  Graph graph;
  Build build(graph);
  build.layer = "head";
  build.softmax(test::add_value(graph, "x", ValueKind::kInput, {4, 4}, RT_BFLOAT16));
  FakeTarget target;
  target.refuses = {RT_OP_SOFTMAX};
  EXPECT_THAT(test::message_of<DeviceError>([&] { lower(graph, target); }),
              HasSubstr("softmax for layer 'head': it is refused here"));
}

TEST(Lower, AnOperationThatSavesIsComposedWithItsBackward) {
  Graph graph;
  Build build(graph);
  const ValueId x = test::add_value(graph, "x", ValueKind::kParameter, {4, 8});
  const ValueId gamma = test::add_value(graph, "gamma", ValueKind::kParameter, {8});
  const ValueId one = test::add_value(graph, "one", ValueKind::kState, {1});
  const ValueId loss = build.square_sum(build.layer_norm(x, gamma, gamma, 1e-5));
  differentiate(graph, loss, one, {x});
  FakeTarget target;
  target.refuses = {RT_OP_LAYER_NORM_BACKWARD};
  EXPECT_THAT(lower(graph, target),
              testing::UnorderedElementsAre(
                  HasSubstr("layer_norm is composed of other operations: fake:0 refuses its "
                            "backward operation"),
                  HasSubstr("layer_norm_backward is composed of other operations: fake:0 refuses "
                            "it (it is refused here)")));
  for (const Node& node : graph.nodes) EXPECT_EQ(node.saved, kNone);
}

TEST(Lower, WhatOtherPassesLookForIsComposedBehindThem) {
  Graph graph;
  Build build(graph);
  build.square_sum(test::add_value(graph, "x", ValueKind::kInput, {4, 4}));
  FakeTarget target;
  target.refuses = {RT_OP_SQUARE_SUM};
  EXPECT_TRUE(lower(graph, target).empty());
  EXPECT_EQ(operations(graph), "square_sum");
  EXPECT_EQ(lower_rest(graph, target).size(), 1u);
  EXPECT_EQ(operations(graph), "multiply reduce");
}

TEST(Lower, AnEmulatedOperationStaysAndIsNamed) {
  Graph graph;
  Build build(graph);
  build.layer = "head";
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {4, 4});
  build.square_sum(x);
  FakeTarget target;
  target.emulates = {RT_OP_SQUARE_SUM};
  EXPECT_THAT(
      lower(graph, target),
      testing::ElementsAre("square_sum of layer 'head' is slow: fake:0 emulates it (without "
                           "the library)"));
  EXPECT_EQ(graph.nodes.size(), 1u);
}

TEST(Lower, OneLineForEachKindOfReplacement) {
  Graph graph;
  Build build(graph);
  const ValueId x = test::add_value(graph, "x", ValueKind::kInput, {4, 4});
  build.softmax(x);
  build.softmax(build.add(x, x));
  FakeTarget target;
  target.refuses = {RT_OP_SOFTMAX};
  EXPECT_EQ(lower(graph, target).size(), 1u);
}

}  // namespace
}  // namespace runtime::graph
