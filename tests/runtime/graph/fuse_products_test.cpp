#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/autodiff.h"
#include "runtime/graph/build.h"
#include "runtime/graph/check.h"
#include "runtime/graph/fuse.h"
#include "tests/runtime/graph/fake_target.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using testing::ElementsAre;

// Two linear layers with an activation between them, and their gradients.
class FuseProductsTest : public testing::Test {
 protected:
  FuseProductsTest() {
    build_.layer = "test";
    target_.fuses[RT_OP_MATMUL] = 8;
    target_.post_kinds.insert(RT_POST_STORE);
  }
  ValueId value(const std::string& name, Dims dims, ValueKind kind = ValueKind::kParameter) {
    return test::add_value(graph_, name, kind, std::move(dims), RT_FLOAT32);
  }
  void make(int32_t function) {
    const ValueId x = value("x", {2, 3, 4}, ValueKind::kInput);
    const ValueId w1 = value("w1", {8, 4}), b1 = value("b1", {8});
    const ValueId w2 = value("w2", {4, 8}), b2 = value("b2", {4});
    v_ = build_.add(build_.matmul(x, w1, false, true), b1);
    y_ = build_.activation(v_, function);
    const ValueId out = build_.add(build_.matmul(y_, w2, false, true), b2);
    const ValueId loss = build_.square_sum(out);
    graph_.value(loss).kind = ValueKind::kOutput;
    for (const auto& [v, g] :
         differentiate(graph_, loss, value("one", {1}, ValueKind::kState), {w1, b1, w2, b2}))
      graph_.value(g).kind = ValueKind::kOutput;
  }
  void fuse_graph() {
    fuse(graph_, target_);
    remove_dead_nodes(graph_);
    EXPECT_EQ(order_fault(graph_), "");
    EXPECT_EQ(fault_of(graph_), "");
  }
  std::vector<int32_t> post_kinds(size_t node) const {
    std::vector<int32_t> kinds;
    for (const PostOp& p : graph_.nodes.at(node).post_ops) kinds.push_back(p.kind);
    return kinds;
  }
  int count(const std::string& op) const {
    return static_cast<int>(std::count_if(graph_.nodes.begin(), graph_.nodes.end(),
                                          [&](const Node& n) { return n.op == op; }));
  }

  Graph graph_;
  Build build_{graph_};
  FakeTarget target_;
  ValueId v_ = kNone, y_ = kNone;
};

TEST_F(FuseProductsTest, TheOperandOfAGeluIsStoredBesideItsResult) {
  for (const int32_t function : {RT_ACTIVATION_GELU, RT_ACTIVATION_GELU_TANH}) {
    graph_ = Graph();
    make(function);
    fuse_graph();
    EXPECT_EQ(count(RT_OP_ACTIVATION), 0);
    EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_BIAS, RT_POST_STORE, RT_POST_ACTIVATION));
    const Node& n = graph_.nodes[0];
    EXPECT_THAT(n.outputs, ElementsAre(y_, v_));
    EXPECT_EQ(n.post_ops[1].operand, -1);
    EXPECT_EQ(n.post_ops[2].function, function);
  }
}

TEST_F(FuseProductsTest, OtherActivationsHaveTheirResultAlone) {
  make(RT_ACTIVATION_RELU);
  fuse_graph();
  EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_BIAS, RT_POST_ACTIVATION));
  EXPECT_THAT(graph_.nodes[0].outputs, ElementsAre(y_));
}

TEST_F(FuseProductsTest, AGeluStaysWhereTheTargetDoesNotStore) {
  target_.post_kinds.erase(RT_POST_STORE);
  make(RT_ACTIVATION_GELU_TANH);
  fuse_graph();
  EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_BIAS));
  EXPECT_EQ(count(RT_OP_ACTIVATION), 1);
}

// A device that reported more than its candidates fuse.
TEST_F(FuseProductsTest, TheGeluIsSplitOffTogetherWithTheStore) {
  make(RT_ACTIVATION_GELU_TANH);
  fuse_graph();
  target_.offers[RT_OP_MATMUL] = 2;
  unfuse(graph_, target_);
  EXPECT_EQ(fault_of(graph_), "");
  EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_BIAS));
  EXPECT_THAT(graph_.nodes[0].outputs, ElementsAre(v_));
  EXPECT_EQ(graph_.nodes[1].op, RT_OP_ACTIVATION);
  EXPECT_THAT(graph_.nodes[1].inputs, ElementsAre(v_));
  EXPECT_THAT(graph_.nodes[1].outputs, ElementsAre(y_));
  EXPECT_EQ(integer_attribute(graph_.nodes[1], RT_ATTR_FUNCTION, 0), RT_ACTIVATION_GELU_TANH);
}

TEST_F(FuseProductsTest, AStoreAtTheEndIsSplitIntoACopy) {
  make(RT_ACTIVATION_GELU_TANH);
  fuse_graph();
  graph_.nodes[0].post_ops.pop_back();
  target_.offers[RT_OP_MATMUL] = 1;
  unfuse(graph_, target_);
  EXPECT_EQ(fault_of(graph_), "");
  EXPECT_THAT(post_kinds(0), ElementsAre(RT_POST_BIAS));
  EXPECT_EQ(graph_.nodes[1].op, RT_OP_COPY);
  EXPECT_THAT(graph_.nodes[1].inputs, ElementsAre(y_));
  EXPECT_THAT(graph_.nodes[1].outputs, ElementsAre(v_));
}

}  // namespace
}  // namespace runtime::graph
