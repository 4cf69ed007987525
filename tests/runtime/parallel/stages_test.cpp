// Checks the balance, hints and memory limits of stages.
#include "runtime/parallel/stages.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "runtime/error.h"
#include "tests/runtime/parallel/pipeline_step.h"

namespace runtime::parallel {
namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

ValueId value(Graph& g, const std::string& name, ValueKind kind, graph::Dims dims) {
  graph::Value v;
  v.name = name;
  v.kind = kind;
  v.dims = std::move(dims);
  return g.add_value(std::move(v));
}

// A chain of layers a, b, c...: layer i writes widths[i] floats and has parameters[i] floats of
// parameters.
Graph chain(const std::vector<int64_t>& widths, const std::vector<int64_t>& parameters = {}) {
  Graph g;
  ValueId x = value(g, "x", ValueKind::kInput, {1});
  for (size_t i = 0; i < widths.size(); ++i) {
    Node n;
    n.op = RT_OP_SCALE;
    n.layer = std::string(1, static_cast<char>('a' + i));
    n.inputs = {x};
    if (!parameters.empty())
      n.inputs.push_back(value(g, n.layer + ".weight", ValueKind::kParameter, {parameters[i]}));
    x = value(g, "", ValueKind::kTemporary, {widths[i]});
    n.outputs = {x};
    g.nodes.push_back(std::move(n));
  }
  return g;
}

// The stage of each layer of the chain, one digit each.
std::string stages_of(Graph g, const StageOptions& options) {
  const Stages stages = assign_stages(g, options);
  std::string text;
  for (const Node& n : g.nodes) text += std::to_string(stages.of(n));
  return text;
}

std::string refusal(Graph g, const StageOptions& options) {
  try {
    assign_stages(g, options);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return "";
}

TEST(Stages, BalanceTheCost) {
  EXPECT_EQ(stages_of(chain({1, 1, 1, 1, 1, 1}), {.stages = 3, .cost = {1, 1, 1, 1, 1, 1}}),
            "001122");
  EXPECT_EQ(stages_of(chain({1, 1, 1, 1}), {.stages = 2, .cost = {6, 1, 2, 3}}), "0111");
  EXPECT_EQ(stages_of(chain({1, 1, 1, 1, 1}), {.stages = 3, .cost = {1, 1, 1, 9, 1}}), "00012");
}

TEST(Stages, AmongEquallyGoodCutsTheOneWithFewBytesIsTaken) {
  EXPECT_EQ(stages_of(chain({9, 9, 1, 9, 9}), {.stages = 2, .cost = {1, 1, 0.02, 1, 1}}), "00011");
  EXPECT_EQ(stages_of(chain({9, 1, 9, 9, 9}), {.stages = 2, .cost = {1, 1, 0.02, 1, 1}}), "00111");
}

TEST(Stages, HintsAreKept) {
  const StageOptions cost = {.stages = 2, .cost = {1, 1, 1, 1}};
  StageOptions hinted = cost;
  hinted.hints = {{"a", 0}, {"b", 1}, {"unknown", 1}};
  EXPECT_EQ(stages_of(chain({1, 1, 1, 1}), hinted), "0111");
  hinted.hints = {{"d", 0}};
  EXPECT_NE(refusal(chain({1, 1, 1, 1}), hinted).find("without a layer"), std::string::npos);
  hinted.hints = {{"a", 1}, {"c", 0}};
  EXPECT_NE(refusal(chain({1, 1, 1, 1}), hinted).find("layer 'c' has stage = 0 behind layer 'a'"),
            std::string::npos);
  hinted.hints = {{"b", 2}};
  EXPECT_NE(refusal(chain({1, 1, 1, 1}), hinted).find("the nearest is 1"), std::string::npos);
}

TEST(Stages, MoreStagesThanLayersAreRefused) {
  EXPECT_NE(refusal(chain({1, 1, 1}), {.stages = 4}).find("use at most 3 stages"),
            std::string::npos);
}

TEST(Stages, MemoryLimitsTheCut) {
  // A cut by cost alone would put the parameters of a and b, 2 x 4 KiB x 4, on one stage.
  const Graph g = chain({1, 1, 1, 1}, {1024, 1024, 1, 1});
  StageOptions options = {.stages = 2, .cost = {1, 1, 1, 1}};
  EXPECT_EQ(stages_of(g, options), "0011");
  options.memory_limit = 20 << 10;
  EXPECT_EQ(stages_of(g, options), "0111");
  options.memory_limit = 10 << 10;
  EXPECT_NE(refusal(g, options).find("within 10 KiB; the best one needs 16 KiB"),
            std::string::npos);
}

// The more micro-batches a stage keeps, the fewer layers with activations it can have.
TEST(Stages, ActivationsCountOnceForEachMicroBatchInFlight) {
  Graph g = chain({1024, 1024, 1024, 1024});
  for (size_t i = 4; i-- > 0;) {
    Node back = g.nodes[i];
    back.phase = Phase::kBackward;
    back.origin = g.nodes[i].origin = static_cast<int32_t>(i);
    back.inputs = {g.nodes[i].outputs[0]};
    back.outputs = {value(g, "", ValueKind::kTemporary, {1})};
    g.nodes.push_back(back);
  }
  StageOptions options = {
      .stages = 2, .cost = {1, 1, 1, 1}, .memory_limit = 12 << 10, .in_flight = {2, 1}};
  EXPECT_EQ(stages_of(g, options).substr(0, 4), "0111");
  options.in_flight = {1, 1};
  EXPECT_EQ(stages_of(g, options).substr(0, 4), "0011");
}

TEST(Stages, BackwardNodesAndPenaltiesBelongToTheirLayer) {
  Step step = make_step(Net::kMlp, 2, 1);
  const Stages stages = assign_stages(step.graph, {.stages = 4});
  int backward = 0;
  for (const Node& n : step.graph.nodes) {
    if (n.op == RT_OP_SQUARE_SUM) {
      EXPECT_EQ(stages.of(n), 0);
    }
    if (n.phase != Phase::kBackward) continue;
    ++backward;
    if (n.op == RT_OP_MULTIPLY || n.op == RT_OP_SCALE) continue;  // nodes of the penalty
    EXPECT_THAT(stages.layers, testing::Contains(StagedLayer{n.layer, stages.of(n)}))
        << n.op << " of " << n.layer;
  }
  EXPECT_GT(backward, 20);
}

TEST(Stages, AnotherStepOfTheModelGetsTheSameStages) {
  Step training = make_step(Net::kConv, 2, 1);
  const Stages first = assign_stages(training.graph, {.stages = 3});
  Step evaluation = make_step(Net::kConv, 7, 1, false);
  std::vector<double> other_cost(evaluation.graph.nodes.size(), 0.1);
  other_cost[0] = 100;
  const Stages second =
      assign_stages(evaluation.graph, {.stages = 3, .as = first.layers, .cost = other_cost});
  EXPECT_EQ(first.layers, second.layers);
}

// Layers may have equal names, and forms of a step may lack layers or have further ones.
TEST(Stages, AnotherStepMayHaveOtherLayers) {
  const auto named = [](const std::string& names) {
    Graph g = chain(std::vector<int64_t>(names.size(), 1));
    for (size_t i = 0; i < names.size(); ++i) g.nodes[i].layer = names[i];
    return g;
  };
  const std::vector<StagedLayer> as = {{"a", 0}, {"p", 0}, {"b", 1}, {"p", 1}, {"c", 2}};
  const StageOptions options = {.stages = 3, .as = as, .cost = {1, 1, 1, 1, 1}};
  EXPECT_EQ(stages_of(named("apbpc"), options), "00112");
  EXPECT_EQ(stages_of(named("abpc"), options), "0112");        // without the first p
  EXPECT_EQ(stages_of(named("ac"), options), "02");            // no layer is left for stage 1
  EXPECT_EQ(stages_of(named("capbpcx"), options), "0001122");  // a second c, and x, which is new
}

}  // namespace
}  // namespace runtime::parallel
