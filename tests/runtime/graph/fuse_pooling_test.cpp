// Convolutions with the pooling behind them (fuse_pooling), by the target's tables and, at the end,
// computed on a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/autodiff.h"
#include "runtime/graph/build.h"
#include "runtime/graph/fuse.h"
#include "tests/runtime/graph/fake_target.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kFused[] = "conv2d_pool2d square_sum";
constexpr Pooling kHalves{2, 2, 2, 2, {}, true};

class FusePoolingTest : public testing::Test {
 protected:
  FusePoolingTest() {
    build_.layer = "test";
    target_.pools = true;
    target_.fuses = {
        {RT_OP_CONV2D, 8}, {RT_OP_MAX_POOL2D_BACKWARD, 8}, {RT_OP_AVG_POOL2D_BACKWARD, 8}};
  }
  ValueId value(const std::string& name, Dims dims, ValueKind kind = ValueKind::kParameter) {
    return test::add_value(graph_, name, kind, std::move(dims), RT_FLOAT32);
  }
  // f(conv2d(x, w) + b), where x is [2,7,6,2] and the result [2,5,4,3].
  ValueId convolution(int32_t function) {
    x_ = value("x", {2, 7, 6, 2}, ValueKind::kInput);
    w_ = value("w", {3, 3, 3, 2});
    b_ = value("b", {3});
    const ValueId v = build_.add(build_.conv2d(x_, w_, {}), b_);
    return function == 0 ? v : build_.activation(v, function);
  }
  ValueId pool(ValueId v, bool average, const Pooling& p = kHalves) {
    return average ? build_.avg_pool2d(v, p) : build_.max_pool2d(v, p);
  }
  ValueId output(ValueId v) {
    graph_.value(v).kind = ValueKind::kOutput;
    return v;
  }
  // The square sum of y, and its gradients with respect to `wanted`.
  void make_step(ValueId y, const std::vector<ValueId>& wanted) {
    loss_ = output(build_.square_sum(y));
    one_ = value("one", {1}, ValueKind::kState);
    for (const auto& [v, gradient] : differentiate(graph_, loss_, one_, wanted))
      gradients_.push_back(output(gradient));
  }
  void make_step(ValueId y) { make_step(y, {w_, b_}); }
  std::string fused() {
    fuse(graph_, target_);
    remove_dead_nodes(graph_);
    EXPECT_EQ(order_fault(graph_), "");
    return operations(graph_);
  }
  const Node& node(const std::string& op) const {
    for (const Node& n : graph_.nodes) {
      if (n.op == op) return n;
    }
    throw std::runtime_error("there is no " + op);
  }

  Graph graph_;
  Build build_{graph_};
  FakeTarget target_;
  ValueId x_ = kNone, w_ = kNone, b_ = kNone, loss_ = kNone, one_ = kNone;
  std::vector<ValueId> gradients_;
};

TEST_F(FusePoolingTest, OneNodeWhereNothingIsDifferentiated) {
  for (const bool average : {false, true}) {
    for (const int32_t function : {0, RT_ACTIVATION_RELU, RT_ACTIVATION_GELU}) {
      graph_ = Graph();
      const ValueId y = output(pool(convolution(function), average, {2, 3, 2, 3, {}, false}));
      ASSERT_EQ(fused(), "conv2d_pool2d");
      const Node& n = graph_.nodes[0];
      EXPECT_THAT(n.inputs, ElementsAre(x_, w_, b_));
      EXPECT_THAT(n.outputs, ElementsAre(y));
      EXPECT_TRUE(n.post_ops.empty());
      EXPECT_EQ(n.saved, kNone);
      EXPECT_EQ(integer_attribute(n, RT_ATTR_KERNEL_H, 0), 2);
      EXPECT_EQ(integer_attribute(n, RT_ATTR_KERNEL_W, 0), 3);
      EXPECT_EQ(integer_attribute(n, RT_ATTR_AVERAGE, -1), average);
      EXPECT_EQ(integer_attribute(n, RT_ATTR_FUNCTION, -1), function);
      EXPECT_EQ(integer_attribute(n, RT_ATTR_STRIDE_H, 0), 1);  // that of the convolution
      EXPECT_EQ(flops(graph_, n), 2.0 * (2 * 5 * 4) * (3 * 3 * 3 * 2));
    }
  }
}

TEST_F(FusePoolingTest, TwoNodesOfAFirstLayer) {
  for (const bool average : {false, true}) {
    for (const int32_t function : {0, RT_ACTIVATION_RELU, RT_ACTIVATION_TANH}) {
      for (const uint32_t post_ops : {0U, 8U}) {  // where it is none, the gradient is a node
        graph_ = Graph();
        target_.fuses[RT_OP_MAX_POOL2D_BACKWARD] = target_.fuses[RT_OP_AVG_POOL2D_BACKWARD] =
            post_ops;
        const ValueId y = pool(convolution(function), average);
        make_step(y);
        const std::string operations = fused();
        EXPECT_THAT(operations, testing::StartsWith(kFused));
        ASSERT_THAT(operations, testing::EndsWith("conv2d_pool2d_backward_weights"));
        const Node &forward = graph_.nodes.front(), &backward = graph_.nodes.back();
        EXPECT_EQ(forward.outputs.at(0), y);
        EXPECT_NE(forward.saved, kNone);
        EXPECT_EQ(backward.saved, forward.saved);
        EXPECT_TRUE(backward.is_backward());
        EXPECT_FALSE(forward.is_backward());
        EXPECT_EQ(backward.inputs.at(0), x_);
        EXPECT_EQ(graph_.value(backward.inputs.at(1)).dims, graph_.value(y).dims);
        ASSERT_EQ(backward.outputs.size(), 2u);
        EXPECT_EQ(graph_.value(backward.outputs[0]).dims, graph_.value(w_).dims);
        EXPECT_EQ(graph_.value(backward.outputs[1]).dims, graph_.value(b_).dims);
        EXPECT_EQ(integer_attribute(backward, RT_ATTR_FUNCTION, -1), function);
        EXPECT_EQ(backward.phase, Phase::kBackward);
        EXPECT_EQ(flops(graph_, backward), flops(graph_, forward));
      }
    }
  }
}

// ---- reasons to leave it

TEST_F(FusePoolingTest, WindowsThatOverlapOrHavePaddingStay) {
  for (const Pooling& p :
       {Pooling{3, 3, 2, 2, {}, true}, Pooling{2, 2, 3, 2, {}, true},
        Pooling{2, 2, 2, 2, {1, 0, 0, 0}, true}, Pooling{2, 2, 2, 2, {0, 0, 0, 1}, true}}) {
    graph_ = Graph();
    output(pool(convolution(RT_ACTIVATION_RELU), false, p));
    EXPECT_EQ(fused(), "conv2d max_pool2d");
  }
}

TEST_F(FusePoolingTest, AnImageThatIsReadElsewhereStays) {
  const ValueId v = convolution(RT_ACTIVATION_RELU);
  output(pool(v, false));
  output(build_.square_sum(v));
  EXPECT_EQ(fused(), "conv2d max_pool2d square_sum");
}

TEST_F(FusePoolingTest, AnOutputOfTheGraphStays) {
  output(pool(output(convolution(RT_ACTIVATION_RELU)), false));
  EXPECT_EQ(fused(), "conv2d max_pool2d");
}

TEST_F(FusePoolingTest, AConvolutionWithoutBiasOrWithAResidualStays) {
  const ValueId x = value("x", {2, 7, 6, 2}, ValueKind::kInput);
  output(pool(build_.conv2d(x, value("w", {3, 3, 3, 2}), {}), false));
  EXPECT_EQ(fused(), "conv2d max_pool2d");
  graph_ = Graph();
  const ValueId v = convolution(0);
  output(pool(build_.add(v, value("r", {2, 5, 4, 3}, ValueKind::kInput)), false));
  EXPECT_EQ(fused(), "conv2d max_pool2d");
}

TEST_F(FusePoolingTest, APoolingWithAPostOperationStays) {
  target_.fuses[RT_OP_MAX_POOL2D] = 8;
  output(build_.activation(pool(convolution(0), false), RT_ACTIVATION_RELU));
  EXPECT_EQ(fused(), "conv2d max_pool2d");
}

TEST_F(FusePoolingTest, TheTargetMayRefuseOrEmulateEither) {
  for (const char* op : {RT_OP_CONV2D_POOL2D, RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS}) {
    for (std::set<std::string>* list : {&target_.refuses, &target_.emulates}) {
      graph_ = Graph();
      *list = {op};
      make_step(pool(convolution(RT_ACTIVATION_RELU), false));
      EXPECT_THAT(fused(), testing::AllOf(HasSubstr("conv2d max_pool2d square_sum"),
                                          testing::EndsWith("conv2d_backward_weights")))
          << op;
      list->clear();
    }
  }
}

// In a later layer, whose input has a gradient too, two nodes read the gradient of the image.
TEST_F(FusePoolingTest, AnInputWithAGradientStays) {
  const ValueId y = pool(convolution(RT_ACTIVATION_RELU), false);
  make_step(y, {x_, w_, b_});
  EXPECT_THAT(fused(), testing::AllOf(HasSubstr("conv2d max_pool2d square_sum"),
                                      HasSubstr("conv2d_backward_data")));
}

// A mean without an activation needs no image to be differentiated.
TEST_F(FusePoolingTest, TheForwardDirectionAloneIfTheGradientNeedsNothingOfIt) {
  const ValueId y = pool(convolution(0), true);
  make_step(y, {x_, w_, b_});
  EXPECT_THAT(fused(), testing::AllOf(testing::StartsWith(kFused), HasSubstr("avg_pool2d_backward"),
                                      HasSubstr("conv2d_backward_data")));
  EXPECT_EQ(node(RT_OP_CONV2D_POOL2D).saved, kNone);
}

TEST_F(FusePoolingTest, WinnersThatAreReadStayWithThePooling) {
  const ValueId y = pool(convolution(0), false);
  make_step(y, {x_, w_, b_});
  EXPECT_THAT(fused(), HasSubstr("conv2d max_pool2d square_sum"));
}

TEST_F(FusePoolingTest, AGradientOfTheWeightsAloneStays) {
  const ValueId y = pool(convolution(RT_ACTIVATION_RELU), false);
  make_step(y, {w_});  // the bias is frozen
  EXPECT_THAT(fused(), testing::AllOf(HasSubstr("conv2d max_pool2d square_sum"),
                                      testing::EndsWith("conv2d_backward_weights")));
}

TEST_F(FusePoolingTest, NodesOnTwoDevicesOrInTwoPhasesStay) {
  const auto made = [&](auto&& change) {
    graph_ = Graph();
    make_step(pool(convolution(RT_ACTIVATION_RELU), false));
    for (Node& n : graph_.nodes) change(n);
    return fused();
  };
  EXPECT_THAT(made([](Node&) {}), testing::StartsWith(kFused));
  EXPECT_THAT(made([](Node& n) { n.on_fallback = true; }), testing::StartsWith(kFused));
  for (const char* op : {RT_OP_MAX_POOL2D, RT_OP_MAX_POOL2D_BACKWARD}) {
    EXPECT_THAT(made([&](Node& n) { n.on_fallback = n.op == op; }),
                HasSubstr("conv2d max_pool2d square_sum"));
  }
  EXPECT_THAT(made([&](Node& n) {
                if (n.op == RT_OP_MAX_POOL2D) n.phase = Phase::kBackward;
              }),
              HasSubstr("conv2d max_pool2d square_sum"));
  EXPECT_THAT(made([&](Node& n) {
                if (n.op == RT_OP_CONV2D_BACKWARD_WEIGHTS || n.op == RT_OP_REDUCE)
                  n.phase = Phase::kUpdate;
              }),
              HasSubstr("conv2d max_pool2d square_sum"));
}

// Two branches read the same image; each gradient belongs to one of them.
TEST_F(FusePoolingTest, EveryGradientGoesToItsOwnForwardNode) {
  for (const bool average : {false, true}) {
    graph_ = Graph();
    gradients_.clear();
    const ValueId first = pool(convolution(0), average);
    const ValueId w = value("w2", {3, 3, 3, 2}), b = value("b2", {3});
    const ValueId second = pool(build_.add(build_.conv2d(x_, w, {}), b), average);
    make_step(build_.multiply(first, second), {w_, b_, w, b});
    fused();
    std::vector<ValueId> forward, backward;
    for (const Node& n : graph_.nodes) {
      if (n.op == RT_OP_CONV2D_POOL2D) forward.push_back(n.saved);
      if (n.op == RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS) backward.push_back(n.saved);
    }
    EXPECT_EQ(forward.size(), 2u);
    EXPECT_THAT(backward, testing::UnorderedElementsAreArray(forward));
    EXPECT_NE(forward.at(0), forward.at(1));
  }
}

// ---- on a device

TEST_F(FusePoolingTest, ComputesWhatTheOperationsComputeOneByOne) {
  for (const bool average : {false, true}) {
    for (const int32_t function : {0, RT_ACTIVATION_RELU, RT_ACTIVATION_TANH}) {
      graph_ = Graph();
      gradients_.clear();
      make_step(pool(convolution(function), average));
      test::GraphRun one_by_one(graph_,
                                test::open_device("simulated", {{"refuse", RT_OP_CONV2D_POOL2D}}));
      test::GraphRun together(graph_, test::open_device("simulated"));
      for (test::GraphRun* run : {&one_by_one, &together}) {
        for (const ValueId v : {x_, w_, b_})
          run->set(v, test::random_numbers(element_count(graph_.value(v).dims), v));
        run->set(one_, {1});
        run->run();
      }
      EXPECT_THAT(operations(together.program().graph()), testing::StartsWith(kFused));
      EXPECT_THAT(operations(one_by_one.program().graph()), testing::StartsWith("conv2d "));
      ASSERT_EQ(gradients_.size(), 2u);
      for (const ValueId v : {loss_, gradients_[0], gradients_[1]})
        EXPECT_EQ(together.get(v), one_by_one.get(v)) << average << ' ' << function;
    }
  }
}

}  // namespace
}  // namespace runtime::graph
