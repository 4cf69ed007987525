// ZeRO stages 2 and 3 on a step made by hand: three layers, each with a parameter in a bucket of
// its own; the forward pass reads packed copies of the parameters.
#include "runtime/parallel/zero.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "runtime/graph/operation.h"
#include "runtime/graph/rewriter.h"
#include "tests/runtime/parallel/hand_made_step.h"

namespace runtime::parallel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeList;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

constexpr int kLayers = 3;

// Parameters of 32 elements; the gradient of the last one has 30.
HandMadeStep layer_step(int ranks) {
  HandMadeStep s;
  Graph& g = s.graph;
  s.buffers.layout = lay_out({128, 128, 128}, {ranks, 1, 1});
  const auto elements = static_cast<int64_t>(s.buffers.layout.bytes / 4);
  s.inputs.features = add(g, "features", ValueKind::kInput, {2, 4});
  s.buffers.parameters = add(g, "parameters", ValueKind::kParameter, {elements});
  s.buffers.gradients = add(g, "gradients", ValueKind::kState, {elements});
  s.buffers.loss = add(g, "loss", ValueKind::kOutput, {1});
  const ValueId momentum = add(g, "momentum", ValueKind::kState, {elements});
  const ValueId rate = add(g, "rate", ValueKind::kInput, {1});
  graph::Rewriter rewriter(g);
  ValueId x = s.inputs.features;
  std::vector<ValueId> weights;
  NodeList rest;
  for (int i = 0; i < kLayers; ++i) {
    const std::string name = std::to_string(i);
    weights.push_back(
        rewriter.view(s.buffers.parameters, s.buffers.layout.offsets[i], int64_t{32}));
    const ValueId packed = add(g, "packed" + name, ValueKind::kPacked, {32});
    g.nodes.push_back(node("pack" + name, Phase::kPack, {weights[i]}, {packed}));
    const ValueId y = i + 1 < kLayers ? add(g, "", ValueKind::kTemporary, {2, 4}) : s.buffers.loss;
    rest.push_back(node("forward" + name, Phase::kForward, {x, packed}, {y}));
    x = y;
  }
  for (int i = kLayers; i-- > 0;) {
    const ValueId gradient = rewriter.view(s.buffers.gradients, s.buffers.layout.offsets[i],
                                           int64_t{i + 1 < kLayers ? 32 : 30});
    rest.push_back(
        node("backward" + std::to_string(i), Phase::kBackward, {x, weights[i]}, {gradient}));
  }
  rest.push_back(node(RT_OP_SGD, Phase::kUpdate,
                      {s.buffers.parameters, s.buffers.gradients, rate, rate, momentum},
                      {s.buffers.parameters, momentum}));
  for (Node& n : rest) g.nodes.push_back(std::move(n));
  return s;
}

HandMadeStep distributed(const DistributeOptions& options) {
  HandMadeStep s = layer_step(options.world_size);
  distribute(s.graph, s.buffers, s.inputs, options);
  return s;
}

TEST(Zero, ABucketIsScatteredWhileTheNextOneIsComputed) {
  const HandMadeStep s = distributed({.world_size = 2, .zero_stage = 2});
  EXPECT_EQ(order(s.graph), (Order{"pack0",           "pack1",
                                   "pack2",           "forward0",
                                   "forward1",        "forward2",
                                   "start loss",      RT_OP_FILL,
                                   "backward2",       "start bucket 0",
                                   "backward1",       "wait bucket 0",
                                   "start bucket 1",  "backward0",
                                   "wait bucket 1",   "start bucket 2",
                                   "wait bucket 2",   "wait loss",
                                   RT_OP_SGD,         "start parameters",
                                   RT_OP_SGD,         "start parameters",
                                   RT_OP_SGD,         "start parameters",
                                   "wait parameters", "wait parameters",
                                   "wait parameters"}));
  EXPECT_EQ(graph::canonical_bytes(s.graph.value(s.buffers.gradients)), s.buffers.layout.bytes / 2);
  EXPECT_EQ(graph::canonical_bytes(s.graph.value(s.buffers.parameters)), s.buffers.layout.bytes);
  for (const Node& n : s.graph.nodes) {
    if (n.layer != "backward2") continue;
    EXPECT_EQ(s.graph.value(s.graph.storage(n.outputs[0])).kind, ValueKind::kTemporary);
  }
}

TEST(Zero, EveryMicroStepAddsToTheShard) {
  const HandMadeStep s = distributed(
      {.world_size = 2, .overlap = false, .zero_stage = 2, .accumulate = true, .reduce = false});
  const Order all = order(s.graph);
  const Order bucket(all.begin() + 8, all.begin() + 14);
  EXPECT_EQ(bucket, (Order{RT_OP_FILL, "backward2", "start bucket 0", "wait bucket 0", RT_OP_ADD,
                           RT_OP_COPY}));
}

TEST(Zero, ParametersAreGatheredAheadOfTheirUseAndAgainForBackward) {
  const HandMadeStep s = distributed({.rank = 1, .world_size = 2, .zero_stage = 3});
  const Order all = order(s.graph);
  const std::string p = "parameters, bucket ";
  const Order forward(all.begin(), std::find(all.begin(), all.end(), "backward2"));
  EXPECT_EQ(forward,
            (Order{"start " + p + "2", "start " + p + "1", "wait " + p + "2", "pack0", "forward0",
                   "start " + p + "0", "wait " + p + "1", "pack1", "forward1", "start " + p + "2",
                   "wait " + p + "0", "pack2", "forward2", "start loss", RT_OP_FILL}));
  EXPECT_EQ(std::count(all.begin(), all.end(), "start " + p + "2"), 2);
  EXPECT_EQ(std::count(all.begin(), all.end(), "start " + p + "1"), 1);  // kept for backward
  EXPECT_EQ(std::count(all.begin(), all.end(), "start parameters"), 0);
  EXPECT_EQ(graph::canonical_bytes(s.graph.value(s.buffers.parameters)),
            s.buffers.layout.bytes / 2);
  for (const Node& n : s.graph.nodes) {
    for (const ValueId v : n.outputs)
      EXPECT_NE(s.graph.value(s.graph.storage(v)).kind, ValueKind::kPacked) << n.op;
    if (n.op != RT_OP_SGD) continue;
    EXPECT_EQ(s.graph.value(n.inputs[0]).offset, s.graph.value(n.inputs[4]).offset);
    EXPECT_EQ(s.graph.value(n.inputs[1]).offset, s.graph.value(n.inputs[4]).offset);
  }
}

TEST(Zero, EveryStartHasItsWaitBehindIt) {
  for (const int stage : {2, 3}) {
    for (const bool overlap : {true, false}) {
      const HandMadeStep s =
          distributed({.world_size = 3, .overlap = overlap, .zero_stage = stage});
      std::vector<int32_t> open;
      for (const Node& n : s.graph.nodes) {
        if (!n.collective) continue;
        if (!n.collective->wait) {
          open.push_back(n.collective->token);
        } else {
          EXPECT_EQ(std::erase(open, n.collective->token), 1u) << n.layer;
        }
      }
      EXPECT_TRUE(open.empty());
    }
  }
}

}  // namespace
}  // namespace runtime::parallel
