// Every kind of fault, put into a sound graph on purpose.
#include "runtime/graph/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/build.h"

namespace runtime::graph {
namespace {

using ::testing::HasSubstr;

// A product, a sum over ranks, a residual sum and an operation with saved data.
class CheckTest : public testing::Test {
 protected:
  CheckTest() {
    Build build(graph_);
    build.layer = "fc";
    const ValueId x = graph_.add_value("x", ValueKind::kInput, {4, 6}, RT_FLOAT32);
    const ValueId w = graph_.add_value("w", ValueKind::kParameter, {6, 6}, RT_FLOAT32);
    product_ = build.matmul(x, w);
    const ValueId sum = build.all_reduce(product_, 0);
    const ValueId y = build.add(sum, x);
    const ValueId pooled = graph_.add_value("pooled", ValueKind::kTemporary, {4, 6}, RT_FLOAT32);
    const ValueId gradient = graph_.add_value("g", ValueKind::kOutput, {4, 6}, RT_FLOAT32);
    const ValueId saved = graph_.add_value("saved", ValueKind::kTemporary, {1}, RT_FLOAT32);
    build.node_into(RT_OP_MAX_POOL2D, {y}, {pooled});
    build.node_into(RT_OP_MAX_POOL2D_BACKWARD, {pooled}, {gradient});
    for (size_t i = kForward; i < graph_.nodes.size(); ++i) graph_.nodes[i].saved = saved;
  }

  static constexpr size_t kProduct = 0, kStart = 1, kWait = 2, kSum = 3, kForward = 4,
                          kBackward = 5;
  Node& node(size_t i) { return graph_.nodes.at(i); }

  Graph graph_;
  ValueId product_ = kNone;
};

TEST_F(CheckTest, ASoundGraphHasNoFault) { EXPECT_EQ(fault_of(graph_), ""); }

TEST_F(CheckTest, AReadBeforeTheWrite) {
  std::swap(node(kSum), node(kForward));
  EXPECT_THAT(fault_of(graph_), HasSubstr("before any node writes it"));
}

TEST_F(CheckTest, ANodeThatWasRemovedAndIsStillNeeded) {
  graph_.nodes.erase(graph_.nodes.begin() + kProduct);
  EXPECT_THAT(fault_of(graph_), HasSubstr("before any node writes it"));
  EXPECT_THAT(fault_of(graph_), HasSubstr("fc"));
}

TEST_F(CheckTest, TwoWriters) {
  graph_.nodes.push_back(node(kSum));
  EXPECT_THAT(fault_of(graph_), HasSubstr("which an earlier node has written"));
}

TEST_F(CheckTest, AChangeInPlaceIsNoSecondWriter) {
  Build build(graph_);
  build.node_into(RT_OP_ACTIVATION, {product_}, {product_});
  EXPECT_EQ(fault_of(graph_), "");
}

TEST_F(CheckTest, AValueThatDoesNotExist) {
  node(kSum).inputs[1] = 1000;
  EXPECT_THAT(fault_of(graph_), HasSubstr("has value 1000 of"));
}

TEST_F(CheckTest, AViewBeyondItsBase) {
  Value view;
  view.dims = {4, 6};
  view.base = product_;
  view.offset = 4;
  node(kSum).inputs[1] = graph_.add_value(view);
  EXPECT_THAT(fault_of(graph_), HasSubstr("bytes 4 to 100 of"));
}

TEST_F(CheckTest, ACollectiveThatNobodyWaitsFor) {
  graph_.nodes.erase(graph_.nodes.begin() + kWait);
  EXPECT_THAT(fault_of(graph_), HasSubstr("never waited for"));
}

TEST_F(CheckTest, AWaitBeforeItsStart) {
  std::swap(node(kStart), node(kWait));
  EXPECT_THAT(fault_of(graph_), HasSubstr("waits for a collective that is not started"));
}

TEST_F(CheckTest, AWaitForOtherOperands) {
  node(kWait).outputs = {product_};
  EXPECT_THAT(fault_of(graph_), HasSubstr("started with other operands"));
}

TEST_F(CheckTest, ATokenThatIsUsedTwice) {
  Build build(graph_);
  build.all_reduce(product_, 0);
  graph_.nodes.back().collective->token = node(kStart).collective->token;
  (graph_.nodes.end() - 2)->collective->token = node(kStart).collective->token;
  std::rotate(graph_.nodes.begin() + kWait, graph_.nodes.end() - 2, graph_.nodes.end());
  EXPECT_THAT(fault_of(graph_), HasSubstr("token is in use"));
}

TEST_F(CheckTest, SavedDataThatNobodyWrites) {
  node(kForward).saved = kNone;
  EXPECT_THAT(fault_of(graph_), HasSubstr("saved data"));
}

TEST_F(CheckTest, ShapesThatDoNotFit) {
  const Graph sound = graph_;
  for (const size_t i : {kProduct, kStart, kSum}) {
    graph_ = sound;
    graph_.value(node(i).outputs[0]).dims = {5, 7};
    EXPECT_THAT(fault_of(graph_), HasSubstr("does not fit its operands")) << i;
  }
}

TEST_F(CheckTest, TypesThatDoNotFit) {
  graph_.value(node(kSum).outputs[0]).dtype = RT_FLOAT16;
  EXPECT_THAT(fault_of(graph_), HasSubstr("does not fit its operands"));
}

}  // namespace
}  // namespace runtime::graph
