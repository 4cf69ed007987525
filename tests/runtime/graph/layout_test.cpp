// Checks which layouts are chosen, where copies stand, and views of rows.
#include "runtime/graph/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "rt/sdk/foreign_layout.h"
#include "runtime/error.h"
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
      EXPECT_TRUE(rt::sdk::is_row_layout(v.layout) || v.base == kNone) << v.name;
      EXPECT_EQ(v.bytes, canonical_bytes(v) + FakeTarget::kPadding) << v.name;
    }
    for (const Node& n : graph_.nodes) {
      for (ValueId v : n.inputs) {
        const Value& view = graph_.value(v);
        if (view.base == kNone) continue;
        EXPECT_EQ(graph_.value(graph_.storage(v)).layout, view.layout) << n.op;
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

// Where no step changes the weights, packing them is done once and costs nothing.
TEST_F(LayoutTest, PackingCountsOnlyWhereAStepChangesTheParameters) {
  const auto algorithm = [&](bool updates) {
    graph_ = Graph();
    offer_blocked(kPlain - 5);  // it saves 5, and packing costs 10
    target_.ways[RT_OP_CONV2D][0].inputs[0] = 0;
    target_.ways[RT_OP_CONV2D][0].outputs[0] = 0;
    const ValueId y = convolution(image(), "w1");
    graph_.value(y).kind = ValueKind::kOutput;
    if (updates) {
      build_.phase = Phase::kUpdate;
      build_.node_into(RT_OP_COPY, {image()}, {value("w2", {2, 6, 6, 4}, ValueKind::kParameter)});
      build_.phase = Phase::kForward;
    }
    apply();
    return node(RT_OP_CONV2D).algorithm;
  };
  EXPECT_EQ(algorithm(false), 2u);
  EXPECT_EQ(algorithm(true), 1u);
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

// A convolution with its pooling: x and dy of the backward operation have the layouts of x and y of
// the forward operation.
TEST_F(LayoutTest, AGradientOfWeightsFollowsItsForward) {
  target_.pools = true;
  for (const bool offered : {true, false}) {
    graph_ = Graph();
    const ValueId x = image(), w = value("w", {4, 3, 3, 4}, ValueKind::kParameter);
    const ValueId b = value("b", {4}, ValueKind::kParameter);
    const ValueId y = build_.node1(RT_OP_CONV2D_POOL2D, {x, w, b}, {2, 2, 2, 4});
    Value saved;
    saved.dtype = RT_UINT8;
    saved.dims = {0};
    const ValueId keep = graph_.nodes.back().saved = graph_.add_value(saved);
    graph_.value(relu(y)).kind = ValueKind::kOutput;
    const ValueId dy = relu(value("dy", {2, 2, 2, 4}, ValueKind::kInput));
    build_.node(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS, {x, dy}, {{4, 3, 3, 4}, {4}});
    graph_.nodes.back().saved = keep;
    for (const ValueId v : graph_.nodes.back().outputs) graph_.value(v).kind = ValueKind::kOutput;
    offer_blocked();
    for (const char* op : {RT_OP_CONV2D_POOL2D, RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS})
      target_.plain_ns[op] = 1000;
    target_.ways[RT_OP_CONV2D_POOL2D] = {{10, {0, 0, 0}, {kBlocked}}};
    target_.ways[RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS] = {{10, {0, kBlocked}, {0, 0}}};
    if (!offered) target_.ways[RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS].clear();
    apply();
    const uint64_t expected = offered ? kBlocked : RT_LAYOUT_CANONICAL;
    EXPECT_EQ(layout_of_output(RT_OP_CONV2D_POOL2D), expected);
    const Node& backward = node(RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS);
    EXPECT_EQ(graph_.value(backward.inputs[0]).layout, RT_LAYOUT_CANONICAL);
    EXPECT_EQ(graph_.value(backward.inputs[1]).layout, expected);
  }
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

// The end of a language model: products with logits [4,8,33], whose rows are 64 long in a layout in
// which products are fast.
class RowLayoutTest : public LayoutTest {
 protected:
  static constexpr uint64_t kRows = rt::sdk::row_layout(64);

  RowLayoutTest() {
    target_.plain_ns[RT_OP_MATMUL] = kPlain;
    target_.reorder = kPlain / 2;
    target_.ways[RT_OP_MATMUL] = {{kFast, {0, 0}, {kRows}}, {kFast, {kRows, 0}, {0}}};
  }
  // The loss accepts the layout, and its gradient has it too.
  void loss_follows() {
    target_.ways[RT_OP_CROSS_ENTROPY_WITH_GRADIENT] = {{0, {kRows, 0, 0, 0}, {0, kRows}, 1}};
  }
  void build() {
    const ValueId w = value("w", {33, 16}, ValueKind::kParameter),
                  one = value("one", {1}, ValueKind::kState),
                  labels = value("labels", {4, 8}, ValueKind::kInput),
                  weight = value("weight", {4, 8}, ValueKind::kInput);
    const ValueId h = build_.scale(value("x", {4, 8, 16}, ValueKind::kInput), 2);
    graph_.value(labels).dtype = RT_INT32;
    const ValueId loss = build_.cross_entropy(build_.matmul(h, w, false, true), labels, weight);
    graph_.value(loss).kind = ValueKind::kOutput;
    const auto gradients = differentiate(graph_, loss, one, {w, h});
    for (const auto& [parameter, gradient] : gradients) {
      graph_.value(graph_.storage(gradient)).kind = ValueKind::kOutput;
    }
    fuse(graph_, target_);
  }
};

TEST_F(RowLayoutTest, LogitsLossAndBothGradientsStayInOneLayout) {
  loss_follows();
  build();
  apply();
  EXPECT_EQ(copies(), 0);
  const Node& loss = node(RT_OP_CROSS_ENTROPY_WITH_GRADIENT);
  EXPECT_EQ(layout_of_output(RT_OP_MATMUL), kRows);
  EXPECT_EQ(loss.inputs[0], node(RT_OP_MATMUL).outputs[0]);
  const ValueId gradient = loss.outputs[1];
  EXPECT_EQ(graph_.value(gradient).layout, kRows);
  // One product reads the gradient itself, and one reads a view of its rows as a matrix.
  int views = 0;
  for (int number : {1, 2}) {
    const ValueId read = node(RT_OP_MATMUL, number).inputs[0];
    EXPECT_EQ(graph_.storage(read), gradient);
    EXPECT_EQ(graph_.value(read).layout, kRows);
    if (read != gradient) {
      ++views;
      EXPECT_THAT(graph_.value(read).dims, ElementsAre(32, 33));
    }
  }
  EXPECT_EQ(views, 1);
  EXPECT_FALSE(target_.asked_any.contains(RT_OP_CROSS_ENTROPY_WITH_GRADIENT));
}

TEST_F(RowLayoutTest, ADecisionThatIsRememberedIsOfferedAgain) {
  loss_follows();
  build();
  Graph again = graph_;
  apply();
  const auto remembered = target_.memory;
  choose_layouts(again, target_);
  ASSERT_EQ(again.nodes.size(), graph_.nodes.size());
  for (size_t i = 0; i < again.nodes.size(); ++i) {
    EXPECT_EQ(again.nodes[i].inputs, graph_.nodes[i].inputs);
  }
}

// A device of an earlier version refuses losses in this layout, so their operands are copied, where
// the products gain more.
TEST_F(RowLayoutTest, LogitsAreCopiedForALossThatStaysCanonical) {
  build();
  apply();
  EXPECT_GT(copies(), 0);
  const Node& loss = node(RT_OP_CROSS_ENTROPY_WITH_GRADIENT);
  EXPECT_EQ(graph_.value(loss.inputs[0]).layout, RT_LAYOUT_CANONICAL);
  EXPECT_EQ(graph_.value(loss.outputs[1]).layout, RT_LAYOUT_CANONICAL);
}

TEST_F(RowLayoutTest, NothingIsInRowsWhereCopiesCostMore) {
  target_.reorder = 10 * kPlain;
  build();
  apply();
  EXPECT_EQ(copies(), 0);
  EXPECT_EQ(layout_of_output(RT_OP_MATMUL), RT_LAYOUT_CANONICAL);
}

TEST_F(RowLayoutTest, OnlyViewsOfWholeRowsShareTheLayout) {
  const ValueId x = value("x", {4, 8, 33}, ValueKind::kTemporary);
  EXPECT_EQ(owner_of_rows(graph_, x), x);
  const ValueId matrix = graph_.reshape(x, {32, 33});
  EXPECT_EQ(owner_of_rows(graph_, matrix), x);
  EXPECT_EQ(owner_of_rows(graph_, graph_.reshape(matrix, {2, 16, 33})), x);
  const ValueId wide = graph_.reshape(x, {16, 66});
  EXPECT_EQ(owner_of_rows(graph_, wide), wide);
  Value part = graph_.value(matrix);
  part.dims = {16, 33};
  const ValueId first = graph_.add_value(part);
  EXPECT_EQ(owner_of_rows(graph_, first), first);
  const ValueId input = value("input", {4, 8, 33}, ValueKind::kInput);
  const ValueId view = graph_.reshape(input, {32, 33});
  EXPECT_EQ(owner_of_rows(graph_, view), view);
}

}  // namespace
}  // namespace runtime::graph
