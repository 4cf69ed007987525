// Checks which post-operations are fused with which target, and what stays apart.
#include "runtime/graph/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "rt/sdk/post_ops.h"
#include "runtime/graph/autodiff.h"
#include "runtime/graph/build.h"
#include "tests/runtime/graph/fake_target.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using testing::ElementsAre;

class FuseTest : public testing::Test {
 protected:
  FuseTest() { build_.layer = "test"; }
  ValueId value(const std::string& name, Dims dims, ValueKind kind = ValueKind::kParameter) {
    return test::add_value(graph_, name, kind, std::move(dims), RT_FLOAT32);
  }
  ValueId image(const std::string& name = "x") {
    return value(name, {2, 6, 6, 4}, ValueKind::kInput);
  }
  // A convolution with a 3x3 filter from 4 to 4 channels that keeps the size of the image.
  ValueId convolution(ValueId x, const std::string& name = "w") {
    Convolution c;
    c.padding = {1, 1, 1, 1};
    return build_.conv2d(x, value(name, {4, 3, 3, 4}), c);
  }
  ValueId output(ValueId v) {
    graph_.value(v).kind = ValueKind::kOutput;
    return v;
  }
  std::vector<int32_t> post_kinds(size_t node) const {
    std::vector<int32_t> kinds;
    for (const PostOp& p : graph_.nodes.at(node).post_ops) kinds.push_back(p.kind);
    return kinds;
  }
  void fuse_graph() {
    fuse(graph_, target_);
    remove_dead_nodes(graph_);
    EXPECT_EQ(order_fault(graph_), "");
  }

  Graph graph_;
  Build build_{graph_};
  FakeTarget target_;
};

TEST_F(FuseTest, BiasAndActivationGoIntoTheConvolution) {
  target_.fuses[RT_OP_CONV2D] = 8;
  const ValueId b = value("b", {4});
  const ValueId y =
      output(build_.activation(build_.add(convolution(image()), b), RT_ACTIVATION_TANH));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d");
  const Node& n = graph_.nodes[0];
  EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_BIAS, RT_POST_ACTIVATION));
  EXPECT_EQ(n.inputs.at(n.post_ops[0].operand), b);
  EXPECT_EQ(n.post_ops[1].function, RT_ACTIVATION_TANH);
  EXPECT_EQ(n.post_ops[1].operand, -1);
  EXPECT_THAT(n.outputs, ElementsAre(y));
}

TEST_F(FuseTest, ResidualAddAndActivationGoIntoBatchNormInParts) {
  target_.fuses[RT_OP_BATCH_NORM_APPLY] = 8;
  const ValueId x = image(), weight = value("weight", {2}, ValueKind::kInput);
  const ValueId gamma = value("gamma", {4}), beta = value("beta", {4});
  const ValueId mean = value("mean", {4}, ValueKind::kState);
  const ValueId var = value("var", {4}, ValueKind::kState);
  const ValueId y =
      build_.batch_norm_in_parts(convolution(x), weight, gamma, beta, mean, var, 1e-5, 0.1);
  output(build_.activation(build_.add(y, x), RT_ACTIVATION_RELU));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d batch_norm_statistics batch_norm_merge batch_norm_apply");
  EXPECT_THAT(post_kinds(3), ElementsAre(RT_POST_RESIDUAL_ADD, RT_POST_ACTIVATION));
  EXPECT_EQ(graph_.nodes[3].inputs.at(4), x);
}

TEST_F(FuseTest, OnlyThePrefixThatTheTargetFuses) {
  target_.fuses[RT_OP_CONV2D] = 1;
  output(build_.activation(build_.add(convolution(image()), value("b", {4})), RT_ACTIVATION_RELU));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d activation");
  EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_BIAS));
}

TEST_F(FuseTest, NothingAfterAPostOperationThatIsRefused) {
  target_.fuses = {{RT_OP_CONV2D, 8}};
  target_.post_kinds = {RT_POST_ACTIVATION};  // no bias, hence no activation after it
  output(build_.activation(build_.add(convolution(image()), value("b", {4})), RT_ACTIVATION_RELU));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d add activation");
}

TEST_F(FuseTest, TheAddTakesTheActivationWhereTheConvolutionTakesNothing) {
  target_.fuses[RT_OP_ADD] = 1;
  output(build_.activation(build_.add(convolution(image()), value("b", {4})), RT_ACTIVATION_RELU));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d add");
  EXPECT_THAT(post_kinds(1), ElementsAre(RT_POST_ACTIVATION));
}

TEST_F(FuseTest, AFunctionThatIsNoPostOperationStays) {
  target_.fuses[RT_OP_CONV2D] = 8;
  for (const int32_t f : rt::sdk::kForwardOnly) {
    graph_ = Graph();
    output(build_.activation(build_.add(convolution(image()), value("b", {4})), f));
    fuse_graph();
    EXPECT_EQ(operations(graph_), "conv2d activation");
    EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_BIAS));
  }
}

TEST_F(FuseTest, AValueWithTwoReadersStays) {
  target_.fuses[RT_OP_CONV2D] = 8;
  const ValueId y = convolution(image());
  output(build_.activation(y, RT_ACTIVATION_RELU));
  output(build_.activation(y, RT_ACTIVATION_TANH));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d activation activation");
}

TEST_F(FuseTest, AValueAddedToItselfStays) {
  target_.fuses[RT_OP_CONV2D] = 8;
  const ValueId y = convolution(image());
  output(build_.add(y, y));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d add");
}

TEST_F(FuseTest, AnOutputOfTheGraphStays) {
  target_.fuses[RT_OP_CONV2D] = 8;
  const ValueId y = output(convolution(image()));
  output(build_.activation(y, RT_ACTIVATION_RELU));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d activation");
}

TEST_F(FuseTest, AValueReadThroughAViewStays) {
  target_.fuses[RT_OP_CONV2D] = 8;
  const ValueId y = convolution(image());
  output(build_.activation(graph_.reshape(y, {2, 144}), RT_ACTIVATION_RELU));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d activation");
}

// main = conv(x) and shortcut = conv(x); their sum must come after both, in whichever order they
// are written.
TEST_F(FuseTest, ResidualAddComesAfterBothProducers) {
  for (const bool main_first : {true, false}) {
    graph_ = Graph();
    target_.fuses[RT_OP_CONV2D] = 8;
    const ValueId x = image();
    const ValueId a = convolution(x, "first"), b = convolution(x, "second");
    output(build_.activation(main_first ? build_.add(a, b) : build_.add(b, a), RT_ACTIVATION_RELU));
    fuse_graph();
    EXPECT_EQ(operations(graph_), "conv2d conv2d");
    EXPECT_TRUE(graph_.nodes[0].post_ops.empty());
    EXPECT_THAT(post_kinds(1), ElementsAre(RT_POST_RESIDUAL_ADD, RT_POST_ACTIVATION));
    const Node& sum = graph_.nodes[1];
    EXPECT_EQ(sum.inputs.at(sum.post_ops[0].operand), graph_.nodes[0].outputs[0]);
  }
}

TEST_F(FuseTest, ABroadcastThatIsNoBiasStays) {
  target_.fuses[RT_OP_CONV2D] = 8;
  output(build_.add(convolution(image()), value("plane", {6, 6, 1})));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d add");
}

TEST_F(FuseTest, PhasesAreNotMixed) {
  target_.fuses[RT_OP_CONV2D] = 8;
  const ValueId y = convolution(image());
  build_.phase = Phase::kBackward;
  output(build_.activation(y, RT_ACTIVATION_RELU));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d activation");
}

// The gradient of layer_norm(x) by which `other`, another gradient of x, is to be increased.
class LayerNormGradientTest : public FuseTest {
 protected:
  LayerNormGradientTest() {
    target_.fuses[RT_OP_LAYER_NORM_BACKWARD] = 8;
    const ValueId x = value("x", {6, 4}, ValueKind::kInput);
    const ValueId dy = value("dy", {6, 4}, ValueKind::kInput), gamma = value("gamma", {4});
    gradients_ = build_.node(RT_OP_LAYER_NORM_BACKWARD, {dy, x, gamma}, {{6, 4}, {4}, {4}},
                             {{RT_ATTR_EPSILON, 1e-5}});
    other_ = value("other", {6, 4}, ValueKind::kInput);
  }
  ValueId other_;
  std::vector<ValueId> gradients_;  // dx, dgamma, dbeta
};

TEST_F(LayerNormGradientTest, TheGradientOfTheResidualConnectionIsAddedByIt) {
  output(build_.add(other_, gradients_[0]));
  output(build_.square_sum(gradients_[1]));
  output(build_.square_sum(gradients_[2]));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "layer_norm_backward square_sum square_sum");
  EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_RESIDUAL_ADD));
  EXPECT_EQ(graph_.nodes[0].inputs.at(3), other_);
}

TEST_F(LayerNormGradientTest, StaysInFrontOfTheReadersOfItsOtherGradients) {
  output(build_.square_sum(gradients_[1]));
  output(build_.add(other_, gradients_[0]));
  output(build_.square_sum(gradients_[2]));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "layer_norm_backward square_sum add square_sum");
}

class TrainingFuseTest : public FuseTest {
 protected:
  // conv + bias + relu, conv + bias -> loss, with the gradients of all parameters.
  void make() {
    const ValueId x = image();
    const ValueId w1 = value("w1", {4, 3, 3, 4}), b1 = value("b1", {4});
    const ValueId w2 = value("w2", {4, 3, 3, 4}), b2 = value("b2", {4});
    Convolution c;
    c.padding = {1, 1, 1, 1};
    const ValueId h =
        build_.activation(build_.add(build_.conv2d(x, w1, c), b1), RT_ACTIVATION_RELU);
    const ValueId y = build_.add(build_.conv2d(h, w2, c), b2);
    const ValueId loss = output(build_.square_sum(y));
    for (const auto& [v, g] :
         differentiate(graph_, loss, value("one", {1}, ValueKind::kState), {w1, b1, w2, b2}))
      output(g);
  }
};

TEST_F(TrainingFuseTest, BiasGradientsBecomeASecondOutput) {
  make();
  fuse_graph();
  int fused = 0;
  for (const Node& n : graph_.nodes) {
    EXPECT_NE(n.op, RT_OP_REDUCE);
    if (n.op != RT_OP_CONV2D_BACKWARD_WEIGHTS) continue;
    ASSERT_EQ(n.outputs.size(), 2u);
    EXPECT_EQ(graph_.value(n.outputs[1]).dims, Dims{4});
    ++fused;
  }
  EXPECT_EQ(fused, 2);
}

TEST_F(TrainingFuseTest, BiasGradientsStayWhereTheTargetRefuses) {
  make();
  target_.bias_gradients = false;
  fuse_graph();
  EXPECT_EQ(std::count_if(graph_.nodes.begin(), graph_.nodes.end(),
                          [](const Node& n) { return n.op == RT_OP_REDUCE; }),
            2);
}

TEST_F(TrainingFuseTest, ActivationBackwardGoesIntoTheDataGradient) {
  make();
  target_.fuses[RT_OP_CONV2D_BACKWARD_DATA] = 1;
  fuse_graph();
  bool found = false;
  for (const Node& n : graph_.nodes) {
    EXPECT_NE(n.op, RT_OP_ACTIVATION_BACKWARD);
    if (n.op != RT_OP_CONV2D_BACKWARD_DATA) continue;
    found = true;
    ASSERT_EQ(n.post_ops.size(), 1u);
    EXPECT_EQ(n.post_ops[0].kind, RT_POST_ACTIVATION_BACKWARD);
    EXPECT_EQ(n.post_ops[0].function, RT_ACTIVATION_RELU);
    // The post-operation reads the output of the relu, not its input.
    EXPECT_EQ(graph_.value(n.inputs.at(n.post_ops[0].operand)).name, "test.activation");
  }
  EXPECT_TRUE(found);
}

TEST_F(FuseTest, DeadNodesGo) {
  const ValueId x = image();
  output(build_.activation(x, RT_ACTIVATION_RELU));
  build_.activation(build_.activation(x, RT_ACTIVATION_TANH), RT_ACTIVATION_TANH);
  build_.node_into(RT_OP_COPY, {x}, {value("kept", {2, 6, 6, 4}, ValueKind::kState)});
  fuse_graph();
  EXPECT_EQ(operations(graph_), "activation copy");
}

TEST_F(FuseTest, AForwardWhoseSavedDataIsReadStays) {
  const ValueId x = image();
  const Pooling p{2, 2, 2, 2, {}, true};
  const ValueId y = build_.max_pool2d(x, p);
  Value saved;
  saved.dtype = RT_UINT8;
  saved.dims = {0};
  graph_.nodes.back().saved = graph_.add_value(saved);
  const ValueId dy = value("dy", Dims(graph_.value(y).dims), ValueKind::kInput);
  output(build_.node1(RT_OP_MAX_POOL2D_BACKWARD, {dy}, {2, 6, 6, 4}, attributes(p)));
  graph_.nodes.back().saved = graph_.nodes.front().saved;
  fuse_graph();
  EXPECT_EQ(operations(graph_), "max_pool2d max_pool2d_backward");
}

// Operations that were fused because the target accepted them, but that have no candidate in any
// layout.
class UnfuseTest : public FuseTest {
 protected:
  UnfuseTest() { target_.fuses = {{RT_OP_CONV2D, 8}, {RT_OP_CONV2D_BACKWARD_DATA, 8}}; }
  void unfuse_graph() {
    fuse_graph();
    unfuse(graph_, target_);
    EXPECT_EQ(order_fault(graph_), "");
  }
};

TEST_F(UnfuseTest, TheLastPostOperationsBecomeNodesAgain) {
  target_.offers[RT_OP_CONV2D] = 1;
  const ValueId b = value("b", {4}), r = image("r");
  const ValueId sum = build_.add(build_.add(convolution(image()), b), r);
  const ValueId y = output(build_.activation(sum, RT_ACTIVATION_TANH));
  fuse_graph();
  ASSERT_EQ(operations(graph_), "conv2d");
  graph_.nodes[0].origin = 5;
  unfuse(graph_, target_);
  EXPECT_EQ(order_fault(graph_), "");
  EXPECT_EQ(operations(graph_), "conv2d add activation");
  EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_BIAS));
  const Node &conv = graph_.nodes[0], &add = graph_.nodes[1], &tanh = graph_.nodes[2];
  EXPECT_EQ(conv.inputs.size(), 3u);
  EXPECT_EQ(conv.inputs.at(conv.post_ops[0].operand), b);
  EXPECT_THAT(add.inputs, ElementsAre(conv.outputs[0], r));
  EXPECT_THAT(tanh.inputs, ElementsAre(add.outputs[0]));
  EXPECT_THAT(tanh.outputs, ElementsAre(y));
  EXPECT_EQ(integer_attribute(tanh, RT_ATTR_FUNCTION, 0), RT_ACTIVATION_TANH);
  for (const Node& n : graph_.nodes) {
    EXPECT_EQ(n.origin, 5);
    EXPECT_EQ(n.layer, "test");
  }
  EXPECT_EQ(graph_.value(conv.outputs[0]).dims, graph_.value(y).dims);
  EXPECT_EQ(graph_.value(conv.outputs[0]).kind, ValueKind::kTemporary);
}

TEST_F(UnfuseTest, AnActivationsGradientKeepsItsOperands) {
  target_.offers[RT_OP_CONV2D] = 0;
  const ValueId saved = image("s");
  const ValueId dy = convolution(image());
  const ValueId dx = build_.node1(RT_OP_ACTIVATION_BACKWARD, {dy, saved}, {2, 6, 6, 4},
                                  {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_RELU}}});
  output(dx);
  unfuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d activation_backward");
  EXPECT_THAT(graph_.nodes[0].post_ops, testing::IsEmpty());
  EXPECT_THAT(graph_.nodes[1].inputs, ElementsAre(graph_.nodes[0].outputs[0], saved));
  EXPECT_THAT(graph_.nodes[1].outputs, ElementsAre(dx));
  EXPECT_EQ(integer_attribute(graph_.nodes[1], RT_ATTR_FUNCTION, 0), RT_ACTIVATION_RELU);
}

TEST_F(UnfuseTest, WhatIsOfferedStaysFused) {
  output(build_.activation(build_.add(convolution(image()), value("b", {4})), RT_ACTIVATION_TANH));
  unfuse_graph();
  EXPECT_EQ(operations(graph_), "conv2d");
  EXPECT_EQ(graph_.nodes[0].post_ops.size(), 2u);
}

class FuseLossTest : public FuseTest {
 protected:
  FuseLossTest() {
    graph_.value(labels_).dtype = RT_INT32;
    graph_.value(one_).kind = ValueKind::kState;
    const ValueId logits = build_.matmul(value("h", {4, 3}, ValueKind::kInput), w_);
    loss_ = output(build_.cross_entropy(logits, labels_, weight_));
  }
  // Adds the backward nodes and fuses.
  std::string fused() {
    const auto gradients = differentiate(graph_, loss_, one_, {w_});
    output(gradients.at(w_));
    fuse_graph();
    return operations(graph_);
  }

  ValueId w_ = value("w", {3, 5}), labels_ = value("labels", {4}, ValueKind::kInput),
          weight_ = value("weight", {4}, ValueKind::kInput), one_ = value("one", {1}),
          loss_ = kNone;
};

TEST_F(FuseLossTest, TheGradientIsComputedWithTheLoss) {
  EXPECT_EQ(fused(), "matmul cross_entropy_with_gradient matmul");
  const Node& n = graph_.nodes[1];
  EXPECT_THAT(n.inputs, ElementsAre(graph_.nodes[0].outputs[0], labels_, weight_, one_));
  EXPECT_THAT(n.outputs, ElementsAre(loss_, graph_.nodes[2].inputs[1]));
  EXPECT_EQ(n.phase, Phase::kForward);
}

TEST_F(FuseLossTest, TheNumberOfCorrectPredictionsComesAlong) {
  const ValueId count = output(build_.correct_count(graph_.nodes[0].outputs[0], labels_, weight_));
  EXPECT_EQ(fused(), "matmul cross_entropy_with_gradient matmul");
  EXPECT_EQ(graph_.nodes[1].outputs.at(2), count);
}

TEST_F(FuseLossTest, ACountOfOtherRowsStaysAlone) {
  const ValueId others = value("other weight", {4}, ValueKind::kInput);
  output(build_.correct_count(graph_.nodes[0].outputs[0], labels_, others));
  EXPECT_EQ(fused(), "matmul cross_entropy_with_gradient correct_count matmul");
}

TEST_F(FuseLossTest, ATargetThatRefusesKeepsTheThreeOperations) {
  target_.refuses = {RT_OP_CROSS_ENTROPY_WITH_GRADIENT};
  output(build_.correct_count(graph_.nodes[0].outputs[0], labels_, weight_));
  EXPECT_EQ(fused(), "matmul cross_entropy correct_count cross_entropy_backward matmul");
}

TEST_F(FuseLossTest, ATargetMayRefuseTheCountAlone) {
  target_.most_outputs[RT_OP_CROSS_ENTROPY_WITH_GRADIENT] = 2;
  output(build_.correct_count(graph_.nodes[0].outputs[0], labels_, weight_));
  EXPECT_EQ(fused(), "matmul cross_entropy_with_gradient correct_count matmul");
}

// The node could only run behind the node that computes the gradient of the loss.
TEST_F(FuseLossTest, AGradientThatDependsOnTheLossIsNotMovedBeforeIt) {
  one_ = build_.scale(loss_, 2);
  EXPECT_EQ(fused(), "matmul cross_entropy scale cross_entropy_backward matmul");
}

}  // namespace
}  // namespace runtime::graph
