#include "runtime/graph/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/error.h"
#include "runtime/graph/build.h"
#include "tests/runtime/graph/fake_target.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/graph_run.h"

namespace runtime::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kBlocked = 7, kWeights = 9;
constexpr double kPlain = 1000, kFast = 100;

class LayoutTest : public testing::Test {
 protected:
  LayoutTest() {
    build_.layer = "test";
    target_.plain_ns[RT_OP_CONV2D] = kPlain;
  }
  ValueId value(const std::string& name, Dims dims, ValueKind kind) {
    return test::add_value(graph_, name, kind, std::move(dims), RT_FLOAT32);
  }
  ValueId image() { return value("x", {2, 6, 6, 4}, ValueKind::kInput); }
  ValueId convolution(ValueId x, const std::string& name) {
    Convolution c;
    c.padding = {1, 1, 1, 1};
    return build_.conv2d(x, value(name, {4, 3, 3, 4}, ValueKind::kParameter), c);
  }
  ValueId relu(ValueId x) { return build_.activation(x, RT_ACTIVATION_RELU); }
  // Offers a fast convolution in a blocked layout, whose weights have another layout.
  void offer_blocked(double ns = kFast) {
    target_.ways[RT_OP_CONV2D] = {{ns, {kBlocked, kWeights}, {kBlocked}}};
    target_.follows[RT_OP_ACTIVATION] = true;
    target_.follows[RT_OP_ADD] = true;
  }
  void apply() {
    choose_layouts(graph_, target_);
    check();
  }
  // Checks that hold after any decision.
  void check() {
    EXPECT_EQ(order_fault(graph_), "");
    for (const Value& v : graph_.values) {
      if (v.layout == RT_LAYOUT_CANONICAL) continue;
      EXPECT_TRUE(v.kind == ValueKind::kTemporary || v.kind == ValueKind::kPacked) << v.name;
      EXPECT_EQ(v.base, kNone) << v.name;
      EXPECT_EQ(v.bytes, canonical_bytes(v) + FakeTarget::kPadding) << v.name;
    }
    for (const Node& n : graph_.nodes) {
      for (ValueId v : n.inputs) {
        const Value& view = graph_.value(v);
        if (view.base == kNone) continue;
        EXPECT_EQ(graph_.value(graph_.storage(v)).layout, RT_LAYOUT_CANONICAL) << n.op;
      }
    }
  }
  int copies() const {
    return static_cast<int>(
        std::count_if(graph_.nodes.begin(), graph_.nodes.end(),
                      [](const Node& n) { return n.op == RT_OP_COPY && n.phase != Phase::kPack; }));
  }
  const Node& node(const std::string& op, int number = 0) const {
    for (const Node& n : graph_.nodes) {
      if (n.op == op && number-- == 0) return n;
    }
    throw std::out_of_range(op);
  }
  uint64_t layout_of_output(const std::string& op, int number = 0) const {
    return graph_.value(node(op, number).outputs[0]).layout;
  }

  Graph graph_;
  Build build_{graph_};
  FakeTarget target_;
};

TEST_F(LayoutTest, AChainTakesTheForeignLayoutWhenItPays) {
  offer_blocked();
  const ValueId y = relu(convolution(relu(convolution(image(), "w1")), "w2"));
  graph_.value(y).kind = ValueKind::kOutput;
  apply();
  EXPECT_EQ(layout_of_output(RT_OP_CONV2D, 0), kBlocked);
  EXPECT_EQ(layout_of_output(RT_OP_ACTIVATION, 0), kBlocked);
  EXPECT_EQ(layout_of_output(RT_OP_CONV2D, 1), kBlocked);
  EXPECT_EQ(node(RT_OP_CONV2D).algorithm, 2u);
  EXPECT_EQ(copies(), 2);  // one before the chain and one after it
  EXPECT_EQ(graph_.value(y).layout, RT_LAYOUT_CANONICAL);
}

TEST_F(LayoutTest, AChainStaysCanonicalWhenCopiesCostMore) {
  offer_blocked(kPlain - 15);  // it saves 15, but the copies cost 2 x 10
  const ValueId y = convolution(image(), "w1");
  graph_.value(y).kind = ValueKind::kOutput;
  apply();
  EXPECT_EQ(copies(), 0);
  EXPECT_EQ(node(RT_OP_CONV2D).algorithm, 1u);
}

// Three convolutions save 25 each. Alone none is worth its two copies, but together they share
// them.
TEST_F(LayoutTest, LooksFurtherThanOneNode) {
  offer_blocked(kPlain - 25);
  target_.ways[RT_OP_CONV2D][0].inputs[1] = 0;  // no packing, so only the activations count
  const ValueId y = convolution(convolution(convolution(image(), "w1"), "w2"), "w3");
  graph_.value(y).kind = ValueKind::kOutput;
  target_.reorder = 30;  // 2 x 30 < 3 x 25, but 60 > 25
  apply();
  EXPECT_EQ(copies(), 2);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(node(RT_OP_CONV2D, i).algorithm, 2u);
}

TEST_F(LayoutTest, ReadersShareACopy) {
  offer_blocked();
  const ValueId x = image();
  const ValueId y = build_.add(convolution(x, "w1"), convolution(x, "w2"));
  graph_.value(y).kind = ValueKind::kOutput;
  apply();
  EXPECT_EQ(copies(), 2);  // x once and y once
  EXPECT_EQ(node(RT_OP_CONV2D, 0).inputs[0], node(RT_OP_CONV2D, 1).inputs[0]);
}

TEST_F(LayoutTest, ParametersArePackedInFront) {
  offer_blocked();
  const ValueId y = convolution(image(), "w1");
  graph_.value(y).kind = ValueKind::kOutput;
  apply();
  const Node& pack = graph_.nodes.front();
  EXPECT_EQ(pack.phase, Phase::kPack);
  EXPECT_EQ(pack.op, RT_OP_COPY);
  const Value& packed = graph_.value(pack.outputs[0]);
  EXPECT_EQ(packed.kind, ValueKind::kPacked);
  EXPECT_EQ(packed.layout, kWeights);
  EXPECT_THAT(packed.name, HasSubstr("w1"));
  EXPECT_EQ(graph_.value(pack.inputs[0]).name, "w1");
  EXPECT_EQ(node(RT_OP_CONV2D).inputs[1], pack.outputs[0]);
}

TEST_F(LayoutTest, PartsOfTheFlatParameterArePackedToo) {
  offer_blocked();
  const ValueId flat = value("parameters", {1000}, ValueKind::kParameter);
  const ValueId y = convolution(image(), "w1");
  Value& w = graph_.value(graph_.nodes[0].inputs[1]);
  w.base = flat;
  w.offset = 64;
  graph_.value(y).kind = ValueKind::kOutput;
  apply();
  EXPECT_EQ(graph_.nodes.front().phase, Phase::kPack);
  EXPECT_EQ(graph_.value(graph_.nodes.front().outputs[0]).base, kNone);
}

// The cast of the flat buffer comes first, because the copy in the foreign layout is made of it.
TEST_F(LayoutTest, PartsOfA16BitCopyOfTheParametersArePackedBehindTheirCast) {
  offer_blocked();
  const ValueId flat = value("parameters", {1000}, ValueKind::kParameter);
  const ValueId narrow = value("parameters.bfloat16", {1000}, ValueKind::kPacked);
  build_.phase = Phase::kPack;
  build_.node_into(RT_OP_CAST, {flat}, {narrow});
  build_.phase = Phase::kForward;
  const ValueId y = convolution(image(), "w1");
  Value& w = graph_.value(node(RT_OP_CONV2D).inputs[1]);
  w.kind = ValueKind::kTemporary;
  w.base = narrow;
  w.offset = 64;
  graph_.value(y).kind = ValueKind::kOutput;
  apply();
  EXPECT_EQ(graph_.nodes[0].op, RT_OP_CAST);
  EXPECT_EQ(graph_.nodes[1].op, RT_OP_COPY);
  EXPECT_EQ(graph_.nodes[1].phase, Phase::kPack);
  const Value& packed = graph_.value(graph_.nodes[1].outputs[0]);
  EXPECT_EQ(packed.kind, ValueKind::kPacked);
  EXPECT_EQ(packed.base, kNone);
  EXPECT_EQ(node(RT_OP_CONV2D).inputs[1], graph_.nodes[1].outputs[0]);
}

TEST_F(LayoutTest, AViewReadsACanonicalCopy) {
  offer_blocked();
  const ValueId h = convolution(image(), "w1");
  const ValueId w = value("fc", {10, 144}, ValueKind::kParameter);
  const ValueId y = build_.matmul(graph_.reshape(h, {2, 144}), w, false, true);
  graph_.value(y).kind = ValueKind::kOutput;
  apply();
  EXPECT_EQ(layout_of_output(RT_OP_CONV2D), kBlocked);
  const ValueId read = node(RT_OP_MATMUL).inputs[0];
  EXPECT_EQ(graph_.value(read).dims, (Dims{2, 144}));
  EXPECT_NE(graph_.storage(read), node(RT_OP_CONV2D).outputs[0]);
}

// The second convolution has another foreign layout, and no direct copy exists between the two.
TEST_F(LayoutTest, BetweenForeignLayoutsThroughTheCanonicalOne) {
  constexpr uint64_t kOther = 8;
  offer_blocked();
  target_.foreign_copies = false;
  target_.only_foreign = {RT_OP_CONV2D, RT_OP_MATMUL};
  target_.ways[RT_OP_MATMUL] = {{kFast, {kOther, kWeights}, {kOther}}};
  const ValueId h = convolution(image(), "w1");
  const ValueId y = build_.matmul(h, value("fc", {4, 5}, ValueKind::kParameter));
  graph_.value(y).kind = ValueKind::kOutput;
  apply();
  for (const Node& n : graph_.nodes) {
    if (n.op != RT_OP_COPY) continue;
    EXPECT_TRUE(graph_.value(n.inputs[0]).layout == RT_LAYOUT_CANONICAL ||
                graph_.value(n.outputs[0]).layout == RT_LAYOUT_CANONICAL);
  }
  EXPECT_EQ(graph_.value(node(RT_OP_MATMUL).inputs[0]).layout, kOther);
}

// Max pooling: dy and dx of the backward operation have the layouts of y and x of the forward
// operation.
class PoolingLayoutTest : public LayoutTest {
 protected:
  void make() {
    const ValueId x = convolution(image(), "w1");
    const Pooling p{2, 2, 2, 2, {}, true};
    const ValueId y = build_.max_pool2d(x, p);
    Value saved;
    saved.dtype = RT_UINT8;
    saved.dims = {0};
    graph_.nodes.back().saved = graph_.add_value(saved);
    const ValueId keep = graph_.nodes.back().saved;
    graph_.value(relu(y)).kind = ValueKind::kOutput;
    const ValueId dy = value("dy", {2, 3, 3, 4}, ValueKind::kInput);
    const ValueId dx = build_.node1(RT_OP_MAX_POOL2D_BACKWARD, {dy}, {2, 6, 6, 4}, attributes(p));
    graph_.nodes.back().saved = keep;
    graph_.value(relu(dx)).kind = ValueKind::kOutput;
  }
  void offer_pooling(double forward, double backward) {
    offer_blocked();
    target_.plain_ns[RT_OP_MAX_POOL2D] = target_.plain_ns[RT_OP_MAX_POOL2D_BACKWARD] = 100;
    target_.ways[RT_OP_MAX_POOL2D] = {{forward, {kBlocked}, {kBlocked}}};
    target_.ways[RT_OP_MAX_POOL2D_BACKWARD] = {{backward, {kBlocked}, {kBlocked}}};
  }
};

TEST_F(PoolingLayoutTest, BackwardFollowsForward) {
  offer_pooling(10, 10);
  make();
  apply();
  EXPECT_EQ(layout_of_output(RT_OP_MAX_POOL2D), kBlocked);
  EXPECT_EQ(layout_of_output(RT_OP_MAX_POOL2D_BACKWARD), kBlocked);
}

TEST_F(PoolingLayoutTest, TheBackwardCountsInTheChoice) {
  offer_pooling(10, 100000);  // the forward operation alone would be blocked
  make();
  apply();
  EXPECT_EQ(layout_of_output(RT_OP_MAX_POOL2D), RT_LAYOUT_CANONICAL);
  EXPECT_EQ(layout_of_output(RT_OP_MAX_POOL2D_BACKWARD), RT_LAYOUT_CANONICAL);
}

TEST_F(PoolingLayoutTest, AForwardLayoutWithoutBackwardIsNotTaken) {
  offer_pooling(10, 10);
  target_.ways[RT_OP_MAX_POOL2D_BACKWARD].clear();
  make();
  apply();
  EXPECT_EQ(layout_of_output(RT_OP_MAX_POOL2D), RT_LAYOUT_CANONICAL);
}

TEST_F(PoolingLayoutTest, AForwardLayoutWhoseBackwardFailsWhileItIsMeasuredIsNotTaken) {
  offer_pooling(10, 10);
  target_.ways[RT_OP_MAX_POOL2D_BACKWARD][0].algorithm = 3;
  target_.fails = [](const Candidate& c) { return c.algorithm == 3; };
  make();
  target_.measuring = true;
  choose_layouts(graph_, target_);
  check();
  EXPECT_EQ(layout_of_output(RT_OP_MAX_POOL2D), RT_LAYOUT_CANONICAL);
  EXPECT_EQ(layout_of_output(RT_OP_MAX_POOL2D_BACKWARD), RT_LAYOUT_CANONICAL);
}

TEST_F(LayoutTest, StateWrittenInAForeignLayoutIsCopiedBack) {
  target_.ways[RT_OP_CONV2D] = {{kFast, {kBlocked, kWeights}, {kBlocked}}};
  target_.only_foreign = {RT_OP_CONV2D};
  const ValueId y = convolution(image(), "w1");
  graph_.value(y).kind = ValueKind::kState;
  apply();
  EXPECT_EQ(graph_.value(y).layout, RT_LAYOUT_CANONICAL);
  EXPECT_EQ(graph_.nodes.back().op, RT_OP_COPY);
  EXPECT_THAT(graph_.nodes.back().outputs, ElementsAre(y));
  EXPECT_EQ(graph_.nodes.back().phase, Phase::kForward);
}

TEST_F(LayoutTest, MeasuredTimesReplaceEstimates) {
  offer_blocked();
  graph_.value(convolution(image(), "w1")).kind = ValueKind::kOutput;
  target_.measured_ns = [](const Candidate& c) { return c.algorithm == 2 ? 5000.0 : 10.0; };
  target_.measuring = true;
  const LayoutDecision decision = decide_layouts(graph_, target_);
  EXPECT_EQ(target_.measured, 1);
  EXPECT_EQ(decision[0].algorithm, 1u);
}

TEST_F(LayoutTest, ADecisionThatTheTargetRemembersIsTakenWithoutMeasuring) {
  offer_blocked();
  graph_.value(convolution(image(), "w1")).kind = ValueKind::kOutput;
  target_.measuring = true;
  target_.measured_ns = [](const Candidate& c) { return c.algorithm == 2 ? 5000.0 : 10.0; };
  const Graph given = graph_;
  choose_layouts(graph_, target_);
  ASSERT_TRUE(target_.memory);
  EXPECT_EQ(target_.measured, 1);
  const std::string decided = operations(graph_);
  target_.measured_ns = [](const Candidate&) { return 1.0; };
  graph_ = given;
  choose_layouts(graph_, target_);
  EXPECT_EQ(operations(graph_), decided);
  EXPECT_EQ(target_.measured, 1);
}

TEST_F(LayoutTest, ARememberedDecisionThatIsNoLongerOfferedIsMadeAgain) {
  offer_blocked();
  graph_.value(convolution(image(), "w1")).kind = ValueKind::kOutput;
  const Graph given = graph_;
  choose_layouts(graph_, target_);
  target_.memory->at(0).algorithm = 77;
  graph_ = given;
  choose_layouts(graph_, target_);
  EXPECT_NE(target_.memory->at(0).algorithm, 77u);
  check();
}

// Notes the operands for which it is asked for another layout than the canonical one.
class AskedTarget : public FakeTarget {
 public:
  std::vector<Candidate> candidates(const Graph& graph, const Node& node,
                                    const std::vector<uint64_t>& inputs,
                                    const std::vector<uint64_t>& outputs) override {
    const auto note = [&](const std::vector<uint64_t>& layouts, const char* kind) {
      for (size_t i = 0; i < layouts.size(); ++i) {
        if (layouts[i] != RT_LAYOUT_CANONICAL) asked.insert(node.op + kind + std::to_string(i));
      }
    };
    note(inputs, " input ");
    note(outputs, " output ");
    return FakeTarget::candidates(graph, node, inputs, outputs);
  }
  std::set<std::string> asked;
};

TEST_F(LayoutTest, OtherLayoutsAreAskedForOnlyWhereTheContractHasThem) {
  AskedTarget target;
  target.ways[RT_OP_CONV2D] = {{kFast, {kBlocked, kWeights}, {kBlocked}}};
  const ValueId h = convolution(image(), "w1");
  build_.softmax(h);  // the layout of `h` is not asked for either
  graph_.value(build_.add(h, value("b", {4}, ValueKind::kParameter))).kind = ValueKind::kOutput;
  choose_layouts(graph_, target);
  EXPECT_THAT(target.asked, ElementsAre("add input 0", "add output 0", "conv2d input 0",
                                        "conv2d input 1", "conv2d output 0"));
}

TEST_F(LayoutTest, NoCandidateAtAllIsAFaultOfThePlugin) {
  convolution(image(), "w1");
  target_.only_foreign = {RT_OP_CONV2D};
  const std::string message =
      test::message_of<DeviceError>([&] { decide_layouts(graph_, target_); });
  EXPECT_THAT(message, HasSubstr("offers no layout"));
  EXPECT_THAT(message, HasSubstr("layer 'test'"));
}

}  // namespace
}  // namespace runtime::graph
