// Checks what recomputation copies, and what it leaves alone.
#include "runtime/graph/recompute.h"

#include <gtest/gtest.h>

#include "runtime/graph/build.h"

namespace runtime::graph {
namespace {

class RecomputeTest : public testing::Test {
 protected:
  ValueId value(const std::string& name, ValueKind kind) {
    Value v;
    v.name = name;
    v.kind = kind;
    v.dims = {4};
    return graph_.add_value(std::move(v));
  }
  ValueId temporary(const std::string& name) { return value(name, ValueKind::kTemporary); }

  Node& node(const std::string& op, const std::string& layer, Phase phase,
             std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
    Node n;
    n.op = op;
    n.layer = layer;
    n.phase = phase;
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    graph_.nodes.push_back(std::move(n));
    return graph_.nodes.back();
  }

  std::vector<std::string> order() const {
    std::vector<std::string> list;
    for (const Node& n : graph_.nodes) list.push_back(n.op);
    return list;
  }

  Graph graph_;
};

// x -> block b: [p -> i -> q -> y] -> head. The backward operation of q reads i, that of p reads x.
TEST_F(RecomputeTest, OnlyWhatTheBackwardPassNeedsIsCopied) {
  const ValueId x = value("x", ValueKind::kInput), statistic = value("s", ValueKind::kState);
  const ValueId i = temporary("i"), y = temporary("y"), out = value("out", ValueKind::kOutput);
  const ValueId dy = temporary("dy"), di = temporary("di"), dx = value("dx", ValueKind::kState);
  const ValueId saved = temporary("saved"), saved_q = temporary("saved_q");
  node("p", "b.0", Phase::kForward, {x, statistic}, {i, statistic}).saved = saved;
  node("q", "b.1", Phase::kForward, {i}, {y}).saved = saved_q;
  node("head", "bc", Phase::kForward, {y}, {out});
  node("head_backward", "bc", Phase::kBackward, {y, out}, {dy});
  node("q_backward", "b.1", Phase::kBackward, {dy, i}, {di}).saved = saved_q;
  node("p_backward", "b.0", Phase::kBackward, {di, x}, {dx}).saved = saved;
  recompute(graph_, {"b"});
  EXPECT_EQ(order(), (std::vector<std::string>{"p", "q", "head", "head_backward", "p", "q_backward",
                                               "p_backward"}));
  const Node& copy = graph_.nodes[4];
  EXPECT_EQ(copy.phase, Phase::kBackward);
  EXPECT_EQ(copy.inputs, (std::vector<ValueId>{x, statistic}));
  ASSERT_EQ(copy.outputs.size(), 2u);
  EXPECT_NE(copy.outputs[0], i);
  EXPECT_NE(copy.outputs[1], statistic) << "a running statistic is updated once";
  EXPECT_EQ(graph_.value(copy.outputs[1]).kind, ValueKind::kTemporary);
  EXPECT_EQ(graph_.nodes[5].inputs, (std::vector<ValueId>{dy, copy.outputs[0]}));
  EXPECT_EQ(graph_.nodes[0].saved, kNone);
  EXPECT_EQ(graph_.nodes[6].saved, copy.saved);
  // y leaves the block, so y and the data that its node saved are kept.
  EXPECT_EQ(graph_.nodes[3].inputs[0], y);
  EXPECT_EQ(graph_.nodes[1].saved, saved_q);
  EXPECT_EQ(graph_.nodes[5].saved, saved_q);
}

TEST_F(RecomputeTest, ViewsAndCollectivesAreCopiedToo) {
  const ValueId x = value("x", ValueKind::kInput), i = temporary("i"), sum = temporary("sum");
  const ValueId view = graph_.reshape(sum, {2, 2}), y = temporary("y");
  const ValueId dx = value("dx", ValueKind::kState);
  node("p", "b", Phase::kForward, {x}, {i});
  graph_.tokens = 4;
  node("start", "b", Phase::kForward, {i}, {sum}).collective = Collective{.token = 3};
  node("wait", "b", Phase::kForward, {i, sum}, {sum}).collective =
      Collective{.wait = true, .token = 3};
  node("q", "b", Phase::kForward, {view}, {y});
  node("head", "h", Phase::kForward, {y}, {value("out", ValueKind::kOutput)});
  node("q_backward", "b", Phase::kBackward, {view}, {dx});
  recompute(graph_, {"b"});
  EXPECT_EQ(order(), (std::vector<std::string>{"p", "start", "wait", "q", "head", "p", "start",
                                               "wait", "q_backward"}));
  EXPECT_EQ(graph_.nodes[6].collective->token, 4);
  EXPECT_EQ(graph_.nodes[7].collective->token, 4);
  const ValueId read = graph_.nodes[8].inputs[0];
  EXPECT_EQ(graph_.value(read).dims, (Dims{2, 2}));
  EXPECT_EQ(graph_.storage(read), graph_.nodes[6].outputs[0]);
}

TEST_F(RecomputeTest, ABlockThatNobodyDifferentiatesStays) {
  const ValueId x = value("x", ValueKind::kInput), i = temporary("i");
  node("p", "b", Phase::kForward, {x}, {i});
  node("q", "b", Phase::kForward, {i}, {value("out", ValueKind::kOutput)});
  recompute(graph_, {"b", "c"});
  EXPECT_EQ(order(), (std::vector<std::string>{"p", "q"}));
}

}  // namespace
}  // namespace runtime::graph
