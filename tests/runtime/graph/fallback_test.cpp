// Operations that a device refuses are marked for its fallback device before any is composed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "runtime/graph/autodiff.h"
#include "runtime/graph/build.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/layout.h"
#include "runtime/graph/lower.h"
#include "runtime/graph/open_nodes.h"
#include "runtime/graph/scanner.h"
#include "tests/runtime/graph/fake_target.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// A device with another one beside it, which fuses as much as the device itself.
class Pair : public FakeTarget {
 public:
  std::set<std::string> fallback_refuses;

  std::string fallback_name() const override { return "host:0"; }
  Support support(const Graph& graph, const Node& node) override {
    if (!node.on_fallback) return FakeTarget::support(graph, node);
    if (fallback_refuses.contains(node.op)) return {.reason = "nor here"};
    return {.supported = true, .post_ops_fused = static_cast<uint32_t>(node.post_ops.size())};
  }
  std::vector<Candidate> candidates(const Graph& graph, const Node& node,
                                    const std::vector<uint64_t>& inputs,
                                    const std::vector<uint64_t>& outputs) override {
    if (!node.on_fallback) return FakeTarget::candidates(graph, node, inputs, outputs);
    return FakeTarget().candidates(graph, node, inputs, outputs);
  }
};

// The operations in their order; those of the fallback device have a star.
std::string marked_operations(const Graph& graph) {
  std::string text;
  for (const Node& n : graph.nodes)
    text += (text.empty() ? "" : " ") + n.op + (n.on_fallback ? "*" : "");
  return text;
}

class FallbackTest : public testing::Test {
 protected:
  FallbackTest() { build_.layer = "head"; }
  ValueId parameter(const char* name, Dims dims, rt_dtype dtype = RT_FLOAT32) {
    return test::add_value(graph_, name, ValueKind::kParameter, std::move(dims), dtype);
  }

  Graph graph_;
  Build build_{graph_};
  Pair target_;
};

TEST_F(FallbackTest, WhatTheFallbackSupportsIsNotComposed) {
  const ValueId x = parameter("x", {4, 4});
  build_.softmax(build_.softmax(build_.add(x, x)));
  target_.refuses = {RT_OP_SOFTMAX};
  EXPECT_THAT(lower(graph_, target_),
              ElementsAre("softmax runs on host:0: fake:0 refuses it (it is refused here)"));
  EXPECT_EQ(marked_operations(graph_), "add softmax* softmax*");
}

TEST_F(FallbackTest, WhatTheFallbackRefusesTooIsComposed) {
  build_.softmax(parameter("x", {4, 4}));
  target_.refuses = target_.fallback_refuses = {RT_OP_SOFTMAX};
  EXPECT_THAT(lower(graph_, target_), ElementsAre(HasSubstr("softmax is composed of other")));
  EXPECT_THAT(marked_operations(graph_), Not(HasSubstr("softmax")));
  EXPECT_THAT(marked_operations(graph_), Not(HasSubstr("*")));
}

TEST_F(FallbackTest, WhatAComposedOperationNeedsFallsBack) {
  build_.softmax(parameter("x", {4, 4}));
  target_.refuses = {RT_OP_SOFTMAX, RT_OP_REDUCE};
  target_.fallback_refuses = {RT_OP_SOFTMAX};
  EXPECT_EQ(lower(graph_, target_).size(), 2u);
  EXPECT_THAT(marked_operations(graph_), HasSubstr("reduce*"));
}

TEST_F(FallbackTest, AnOperationThatSavesRunsBesideItsBackward) {
  for (const char* refused : {RT_OP_LAYER_NORM, RT_OP_LAYER_NORM_BACKWARD}) {
    Graph graph;
    Build build(graph);
    const ValueId x = test::add_value(graph, "x", ValueKind::kParameter, {4, 8});
    const ValueId gamma = test::add_value(graph, "gamma", ValueKind::kParameter, {8});
    const ValueId one = test::add_value(graph, "one", ValueKind::kState, {1});
    differentiate(graph, build.square_sum(build.layer_norm(x, gamma, gamma, 1e-5)), one, {x});
    Graph composed = graph;
    Pair target;
    target.refuses = {refused};
    const std::vector<std::string> lines = lower(graph, target);
    EXPECT_THAT(marked_operations(graph),
                AllOf(HasSubstr("layer_norm* "), HasSubstr("layer_norm_backward*")));
    EXPECT_THAT(lines, testing::Contains(HasSubstr(refused == std::string(RT_OP_LAYER_NORM)
                                                       ? "refuses its forward operation"
                                                       : "refuses its backward operation")));
    // Half of the pair is of no use.
    target.fallback_refuses = {RT_OP_LAYER_NORM};
    lower(composed, target);
    EXPECT_THAT(marked_operations(composed),
                AllOf(Not(HasSubstr("layer_norm")), Not(HasSubstr("*"))));
    for (const Node& node : composed.nodes) EXPECT_EQ(node.saved, kNone);
  }
}

TEST_F(FallbackTest, WhatNoPluginKnowsIsComposedAndItsPiecesMayFallBack) {
  const ValueId x = parameter("x", {4, 3}), target = parameter("target", {4, 3});
  const ValueId weight = parameter("weight", {4});
  const std::string loss = std::string(kOwnOperation) + "distance";
  add_operation(graph_, make_open_loss(loss, "l = mean(y - target, 1)", "g = y", {}));
  build_.regression_loss(loss, x, target, weight);
  target_.refuses = {loss, RT_OP_REDUCE};
  EXPECT_THAT(lower(graph_, target_),
              ElementsAre("reduce runs on host:0: fake:0 refuses it (it is refused here)"));
  EXPECT_THAT(marked_operations(graph_), AllOf(Not(HasSubstr("distance")), HasSubstr("reduce*")));
}

TEST_F(FallbackTest, WhatOtherPassesLookForIsMarkedAtOnce) {
  build_.square_sum(parameter("x", {4, 4}));
  target_.refuses = {RT_OP_SQUARE_SUM};
  EXPECT_EQ(lower(graph_, target_).size(), 1u);
  EXPECT_EQ(marked_operations(graph_), "square_sum*");
  EXPECT_TRUE(lower_rest(graph_, target_).empty());
  EXPECT_EQ(marked_operations(graph_), "square_sum*");
}

TEST_F(FallbackTest, SixteenBitsFallBack) {
  build_.softmax(parameter("x", {4, 4}, RT_BFLOAT16));
  target_.refuses = {RT_OP_SOFTMAX};
  lower(graph_, target_);
  EXPECT_EQ(marked_operations(graph_), "softmax*");
}

TEST_F(FallbackTest, ARefusalOfBothNamesTheOther) {
  build_.matmul(parameter("a", {4, 4}), parameter("b", {4, 4}));
  target_.refuses = target_.fallback_refuses = {RT_OP_MATMUL};
  EXPECT_THAT(test::message_of<DeviceError>([&] { lower(graph_, target_); }),
              AllOf(HasSubstr("matmul for layer 'head': it is refused here; host:0 refuses it, too "
                              "(nor here)"),
                    HasSubstr("or let another one than host:0 run what this one refuses")));
}

// A post-operation moves to where the result is, but nothing that the device can do moves because
// of a fused form that only the fallback has.
TEST_F(FallbackTest, FusionKeepsTheDeviceOfTheFirstOperation) {
  const ValueId x = parameter("x", {1, 5, 5, 1}), w = parameter("w", {1, 3, 3, 1});
  const ValueId one = parameter("one", {1, 3, 3, 1});
  build_.activation(build_.conv2d(x, w, {}), RT_ACTIVATION_RELU);
  build_.activation(build_.add(one, one), RT_ACTIVATION_RELU);
  target_.refuses = {RT_OP_CONV2D};
  lower(graph_, target_);
  ASSERT_EQ(marked_operations(graph_), "conv2d* activation add activation");
  fuse(graph_, target_);
  EXPECT_EQ(marked_operations(graph_), "conv2d* add activation");
}

TEST_F(FallbackTest, ItsOperandsAreCanonical) {
  const ValueId x = parameter("x", {1, 5, 5, 1}), w = parameter("w", {1, 3, 3, 1});
  const ValueId v = parameter("v", {1, 1, 1, 1});
  const ValueId y = build_.conv2d(build_.conv2d(x, w, {}), v, {});
  build_.global_avg_pool(y);
  target_.refuses = {RT_OP_GLOBAL_AVG_POOL};
  target_.ways[RT_OP_CONV2D] = {{1, {0, 7}, {7}}, {1, {7, 7}, {7}}};
  target_.plain_ns[RT_OP_CONV2D] = 1000;
  lower(graph_, target_);
  choose_layouts(graph_, target_);
  const Node& last = graph_.nodes.back();
  ASSERT_TRUE(last.on_fallback);
  EXPECT_EQ(graph_.value(last.inputs[0]).layout, RT_LAYOUT_CANONICAL);
  EXPECT_THAT(marked_operations(graph_), HasSubstr("conv2d conv2d copy global_avg_pool*"));
}

}  // namespace
}  // namespace runtime::graph
