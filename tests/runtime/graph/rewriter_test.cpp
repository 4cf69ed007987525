// Checks values, nodes, insertions and collectives that passes make.
#include "runtime/graph/rewriter.h"

#include <gtest/gtest.h>

namespace runtime::graph {
namespace {

class RewriterTest : public testing::Test {
 protected:
  ValueId value(const std::string& name, Dims dims) {
    return graph_.add_value(name, ValueKind::kTemporary, std::move(dims), RT_FLOAT64);
  }
  Graph graph_;
  Rewriter rewriter_{graph_};
};

TEST_F(RewriterTest, ViewsAndValuesHaveTheTypeOfWhatTheyAreMadeLike) {
  const ValueId x = value("x", {8});
  const ValueId view = rewriter_.view(x, 16, Dims{2, 3}), y = rewriter_.temporary(x, {5});
  EXPECT_EQ(graph_.value(view).base, x);
  EXPECT_EQ(graph_.value(view).offset, 16u);
  EXPECT_EQ(graph_.value(view).dtype, RT_FLOAT64);
  EXPECT_EQ(graph_.value(y).dtype, RT_FLOAT64);
  EXPECT_EQ(graph_.value(y).bytes, 40u);
}

TEST_F(RewriterTest, ATemporaryLikeAViewHasMemoryOfItsOwn) {
  const ValueId view = rewriter_.view(value("x", {8}), 16, Dims{2, 3});
  graph_.value(view).kind = ValueKind::kOutput;
  const Value own = graph_.value(rewriter_.temporary(view));
  EXPECT_EQ(own.kind, ValueKind::kTemporary);
  EXPECT_EQ(own.base, kNone);
  EXPECT_EQ(own.offset, 0u);
  EXPECT_EQ(own.dims, (Dims{2, 3}));
  EXPECT_EQ(own.bytes, 48u);
}

TEST_F(RewriterTest, ANodeBesideAnotherBelongsToItsLayerAndPhase) {
  Node first = rewriter_.node(RT_OP_ADD, "conv1", Phase::kBackward, {}, {});
  first.origin = 7;
  const Node second = rewriter_.node(RT_OP_COPY, first, {0}, {1});
  EXPECT_EQ(second.op, RT_OP_COPY);
  EXPECT_EQ(second.layer, "conv1");
  EXPECT_EQ(second.phase, Phase::kBackward);
  EXPECT_EQ(second.origin, 7);
  EXPECT_EQ(second.inputs, std::vector<ValueId>{0});
}

TEST_F(RewriterTest, ReplacingKeepsAbsentOperandsAbsent) {
  std::vector<ValueId> operands = {3, kNone, 4};
  replace(operands, [](ValueId v) { return v + 10; });
  EXPECT_EQ(operands, (std::vector<ValueId>{13, kNone, 14}));
}

TEST_F(RewriterTest, MarkedNodesAreRemovedAndTheOthersKeepTheirOrder) {
  NodeList nodes;
  for (const char* op : {"a", "b", "c", "d"})
    nodes.push_back(rewriter_.node(op, "", Phase::kForward, {}, {}));
  remove_marked(nodes, {1, 0, 1, 0});
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].op, "b");
  EXPECT_EQ(nodes[1].op, "d");
}

TEST_F(RewriterTest, ConcatTakesAsManyNodesAsTheContractNeeds) {
  std::vector<ValueId> values;
  for (int i = 0; i < RT_MAX_INPUTS + 1; ++i) values.push_back(value("", {2, 3}));
  NodeList nodes;
  EXPECT_EQ(rewriter_.concat({values[0]}, "", nodes), values[0]);
  EXPECT_TRUE(nodes.empty());
  const ValueId all = rewriter_.concat(values, "", nodes);
  EXPECT_EQ(graph_.value(all).dims, (Dims{2 * (RT_MAX_INPUTS + 1), 3}));
  for (const Node& n : nodes) EXPECT_LE(n.inputs.size(), static_cast<size_t>(RT_MAX_INPUTS));
  EXPECT_EQ(nodes.back().outputs[0], all);
}

TEST_F(RewriterTest, OnlyTheSenderReadsAndOnlyTheReceiverWrites) {
  const ValueId x = value("x", {4});
  const CollectivePair send = rewriter_.transfer(RT_SEND, x, 2, 3, "");
  const CollectivePair receive = rewriter_.transfer(RT_RECEIVE, x, 1, 3, "");
  EXPECT_TRUE(send.start.outputs.empty() && send.wait.outputs.empty());
  EXPECT_TRUE(receive.start.inputs.empty());
  EXPECT_EQ(receive.wait.outputs, std::vector<ValueId>{x});
  EXPECT_EQ(send.start.collective->peer, 2);
  EXPECT_EQ(send.wait.collective->communicator, 3);
}

TEST_F(RewriterTest, InsertionsKeepTheirPlaces) {
  const auto named = [](const char* op) {
    Node n;
    n.op = op;
    return n;
  };
  Insertions insertions(2);
  insertions.at_end().push_back(named("d"));
  insertions.after(0).push_back(named("b"));
  insertions.after(0).push_back(named("c"));
  std::string order;
  for (const Node& n : insertions.applied_to({named("a"), named("x")})) order += n.op;
  EXPECT_EQ(order, "abcxd");
}

TEST_F(RewriterTest, CopiesOfACollectiveShareANewToken) {
  const ValueId x = value("x", {4}), y = value("y", {4}), z = value("z", {4});
  const CollectivePair pair = rewriter_.collective(RT_ALL_REDUCE, RT_SUM, x, y, 0, "");
  const auto read = [&](ValueId v) { return v == x ? z : v; };
  const auto written = [](ValueId v) { return v; };
  NodeCopies copies(graph_), same(graph_, NodeCopies::Tokens::kSame);
  const Node start = copies.copy(pair.start, read, written);
  const Node wait = copies.copy(pair.wait, read, written);
  EXPECT_EQ(start.inputs[0], z);
  EXPECT_EQ(start.collective->token, wait.collective->token);
  EXPECT_NE(start.collective->token, pair.start.collective->token);
  EXPECT_EQ(same.copy(pair.start, read, written).collective->token, pair.start.collective->token);
  NodeCopies more(graph_);
  EXPECT_NE(more.copy(pair.start, read, written).collective->token, start.collective->token);
}

}  // namespace
}  // namespace runtime::graph
