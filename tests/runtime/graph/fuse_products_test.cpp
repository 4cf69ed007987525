// Checks stored operands of GELUs and gradients of biases, and where neither is fused.
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

TEST_F(FuseProductsTest, BiasGradientsBecomeASecondOutput) {
  target_.product_forms = true;
  make(RT_ACTIVATION_GELU_TANH);
  fuse_graph();
  EXPECT_EQ(count(RT_OP_REDUCE), 0);
  int fused = 0;
  for (const Node& n : graph_.nodes) {
    if (n.op != RT_OP_MATMUL || integer_attribute(n, RT_ATTR_TRANSPOSE_A, 0) == 0) continue;
    ASSERT_EQ(n.outputs.size(), 2u);
    EXPECT_EQ(graph_.value(n.outputs[1]).dims, Dims{graph_.value(n.inputs[0]).dims[1]});
    ++fused;
  }
  EXPECT_EQ(fused, 2);
}

TEST_F(FuseProductsTest, BiasGradientsStayWhereTheTargetRefusesOrEmulates) {
  for (const bool refuses : {true, false}) {
    graph_ = Graph();
    target_.product_forms = !refuses;
    if (!refuses) target_.emulates = {RT_OP_MATMUL};
    make(RT_ACTIVATION_GELU_TANH);
    fuse_graph();
    EXPECT_EQ(count(RT_OP_REDUCE), 2);
  }
}

// dw = dy^T x and db = the sum over the rows of dy, with something between the two.
class BiasGradientTest : public FuseProductsTest {
 protected:
  BiasGradientTest() {
    target_.product_forms = true;
    dy_ = value("dy", {2, 3, 4}, ValueKind::kInput);
    x_ = value("x", {6, 5}, ValueKind::kInput);
  }
  ValueId sum_rows() { return output(build_.reduce(dy_, RT_REDUCE_SUM, 0b11, false)); }
  ValueId multiply() { return output(build_.matmul(graph_.reshape(dy_, {6, 4}), x_, true, false)); }
  ValueId output(ValueId v) {
    graph_.value(v).kind = ValueKind::kOutput;
    return v;
  }

  ValueId dy_ = kNone, x_ = kNone;
};

TEST_F(BiasGradientTest, InEitherOrder) {
  for (const bool sum_first : {true, false}) {
    graph_.nodes.clear();
    ValueId db = sum_first ? sum_rows() : kNone;
    const ValueId dw = multiply();
    if (!sum_first) db = sum_rows();
    fuse_graph();
    ASSERT_EQ(operations(graph_), "matmul");
    EXPECT_THAT(graph_.nodes[0].outputs, ElementsAre(dw, db));
  }
}

TEST_F(BiasGradientTest, StaysIfAnOperandIsWrittenInBetween) {
  const ValueId x = value("x of this step", {6, 5}, ValueKind::kTemporary);
  sum_rows();
  build_.node_into(RT_OP_COPY, {x_}, {x});
  x_ = x;
  multiply();
  fuse_graph();
  EXPECT_EQ(operations(graph_), "reduce copy matmul");
}

TEST_F(BiasGradientTest, StaysIfAResultIsReadInBetween) {
  const ValueId w = value("dw", {4, 5}, ValueKind::kState);
  sum_rows();
  output(build_.scale(w, 2, 0));
  build_.node_into(RT_OP_MATMUL, {graph_.reshape(dy_, {6, 4}), x_}, {w},
                   {{RT_ATTR_TRANSPOSE_A, int64_t{1}}});
  fuse_graph();
  EXPECT_EQ(operations(graph_), "reduce scale matmul");
}

TEST_F(BiasGradientTest, OtherSumsStay) {
  output(build_.reduce(dy_, RT_REDUCE_SUM, 0b01, false));
  output(build_.reduce(dy_, RT_REDUCE_MEAN, 0b11, false));
  multiply();
  fuse_graph();
  EXPECT_EQ(operations(graph_), "reduce reduce matmul");
}

// Products of bfloat16 matrices.
class WideResultTest : public BiasGradientTest {
 protected:
  WideResultTest() {
    graph_.retype(dy_, RT_BFLOAT16);
    graph_.retype(x_, RT_BFLOAT16);
  }
  ValueId to_float32(ValueId v) {
    graph_.value(v).kind = ValueKind::kTemporary;
    return output(build_.cast(v, RT_FLOAT32));
  }
};

TEST_F(WideResultTest, GradientsAreWrittenInFloat32) {
  const ValueId db = to_float32(sum_rows()), dw = to_float32(multiply());
  fuse_graph();
  ASSERT_EQ(operations(graph_), "matmul");
  EXPECT_THAT(graph_.nodes[0].outputs, ElementsAre(dw, db));
}

TEST_F(WideResultTest, CastsStayWhereTheTargetRefuses) {
  target_.product_forms = false;
  to_float32(sum_rows());
  to_float32(multiply());
  fuse_graph();
  EXPECT_EQ(operations(graph_), "reduce cast matmul cast");
}

TEST_F(WideResultTest, ASumInAnotherTypeThanTheProductStays) {
  sum_rows();
  to_float32(multiply());
  fuse_graph();
  EXPECT_EQ(operations(graph_), "reduce matmul");
}

TEST_F(WideResultTest, AResultWithAnotherReaderStaysNarrow) {
  const ValueId dw = multiply();
  to_float32(dw);
  output(build_.scale(dw, 2, 0));
  fuse_graph();
  EXPECT_EQ(operations(graph_), "matmul cast scale");
}

}  // namespace
}  // namespace runtime::graph
