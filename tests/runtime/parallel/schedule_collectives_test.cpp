// The pass on a step made by hand, with three parameters in buckets of their own; the gradient of
// the last one is ready first.
#include <gtest/gtest.h>

#include <string>

#include "runtime/graph/operation.h"
#include "tests/runtime/parallel/hand_made_step.h"

namespace runtime::parallel {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

constexpr int kParameters = 3;

HandMadeStep bucket_step(int ranks) {
  HandMadeStep s;
  Graph& g = s.graph;
  s.buffers.layout = lay_out({128, 128, 128}, {ranks, 1, 1});
  const auto elements = static_cast<int64_t>(s.buffers.layout.bytes / 4);
  s.inputs.features = add(g, "features", ValueKind::kInput, {2, 4});
  s.inputs.target = add(g, "target", ValueKind::kInput, {2});
  s.inputs.weight = add(g, "weight", ValueKind::kInput, {2});
  s.inputs.sample_base = add(g, "sample_base", ValueKind::kInput, {1});
  s.buffers.parameters = add(g, "parameters", ValueKind::kParameter, {elements});
  s.buffers.gradients = add(g, "gradients", ValueKind::kState, {elements});
  s.buffers.loss = add(g, "loss", ValueKind::kOutput, {1});
  const ValueId rate = add(g, "rate", ValueKind::kInput, {1});
  g.nodes.push_back(node("forward", Phase::kForward,
                         {s.inputs.features, s.inputs.target, s.inputs.weight}, {s.buffers.loss}));
  for (int p = kParameters; p-- > 0;) {
    graph::Value view;
    view.dims = {32};
    view.bytes = 128;
    view.base = s.buffers.gradients;
    view.offset = s.buffers.layout.offsets[p];
    const ValueId gradient = g.add_value(view);
    g.nodes.push_back(
        node("backward" + std::to_string(p), Phase::kBackward, {s.inputs.features}, {gradient}));
  }
  g.nodes.push_back(node(RT_OP_SGD, Phase::kUpdate,
                         {s.buffers.parameters, s.buffers.gradients, rate},
                         {s.buffers.parameters}));
  return s;
}

Order distributed_order(const DistributeOptions& options) {
  HandMadeStep s = bucket_step(options.world_size);
  distribute(s.graph, s.buffers, s.inputs, options);
  return order(s.graph);
}

TEST(Distribute, OneRankCommunicatesNothing) {
  EXPECT_EQ(distributed_order({}), (Order{"forward", "backward2", "backward1", "backward0",
                                          RT_OP_SGD, RT_OP_SGD, RT_OP_SGD}));
}

TEST(Distribute, EachBucketStartsBehindItsGradientAndIsUpdatedBehindItsWait) {
  EXPECT_EQ(distributed_order({.world_size = 2}),
            (Order{"forward", RT_OP_COPY, "backward2", "start bucket 0", "backward1",
                   "start bucket 1", "backward0", "start bucket 2", "wait bucket 0", RT_OP_SGD,
                   "wait bucket 1", RT_OP_SGD, "wait bucket 2", RT_OP_SGD}));
}

TEST(Distribute, WithoutOverlapAllStartBehindTheBackwardPass) {
  EXPECT_EQ(distributed_order({.world_size = 2, .overlap = false}),
            (Order{"forward", RT_OP_COPY, "backward2", "backward1", "backward0", "start bucket 0",
                   "start bucket 1", "start bucket 2", "wait bucket 0", RT_OP_SGD, "wait bucket 1",
                   RT_OP_SGD, "wait bucket 2", RT_OP_SGD}));
}

TEST(Distribute, TheLossTravelsBehindTheBucketThatIsReadyFirst) {
  HandMadeStep s = bucket_step(2);
  const uint64_t bytes = s.buffers.layout.bytes;
  const Distributed d = distribute(s.graph, s.buffers, s.inputs, {.world_size = 2});
  EXPECT_EQ(s.graph.storage(d.loss), s.buffers.gradients);
  EXPECT_EQ(s.graph.value(d.loss).offset, bytes);
  for (const Node& n : s.graph.nodes) {
    if (!n.collective || n.layer != "bucket 0") continue;
    const graph::Value& sent = s.graph.value(n.inputs[0]);
    EXPECT_EQ(sent.offset + graph::canonical_bytes(sent), bytes + 4);
  }
}

TEST(Distribute, ZeroScattersGradientsAndGathersParameters) {
  HandMadeStep s = bucket_step(2);
  distribute(s.graph, s.buffers, s.inputs, {.rank = 1, .world_size = 2, .zero_stage = 1});
  int scatters = 0, gathers = 0, updates = 0;
  for (const Node& n : s.graph.nodes) {
    if (n.op == RT_OP_SGD) {
      ++updates;  // one for half a bucket, the second half
      const graph::Value& gradient = s.graph.value(n.inputs[1]);
      EXPECT_EQ(gradient.dims, (graph::Dims{16}));
      EXPECT_EQ(gradient.offset % 128, 64u);
    }
    if (!n.collective || n.collective->wait) continue;
    scatters += n.collective->kind == RT_REDUCE_SCATTER;
    gathers += n.collective->kind == RT_ALL_GATHER;
  }
  EXPECT_EQ(scatters, kParameters);
  EXPECT_EQ(gathers, kParameters);
  EXPECT_EQ(updates, kParameters);
}

// The partition of a bucket goes to the copies while the next bucket is computed.
TEST(Distribute, PartitionsWithCopiesAreReducedTwice) {
  HandMadeStep s = bucket_step(4);
  distribute(s.graph, s.buffers, s.inputs,
             {.rank = 3, .world_size = 4, .zero_stage = 1, .zero_ranks = 2});
  std::vector<std::string> collectives;
  for (const Node& n : s.graph.nodes) {
    if (n.op == RT_OP_SGD) {
      EXPECT_EQ(s.graph.value(n.inputs[1]).dims, (graph::Dims{32}));
      EXPECT_EQ(s.graph.value(n.inputs[1]).offset % 256, 128u);  // the second half
    }
    if (!n.collective || n.layer == "loss") continue;
    const std::string kind = n.collective->kind == RT_REDUCE_SCATTER ? "scatter"
                             : n.collective->kind == RT_ALL_REDUCE   ? "reduce"
                                                                     : "gather";
    collectives.push_back((n.collective->wait ? "wait " : "") + kind + " " +
                          std::to_string(n.collective->communicator));
  }
  const std::string scatter = "scatter " + std::to_string(kPartitionsCommunicator),
                    reduce = "reduce " + std::to_string(kReplicasCommunicator),
                    gather = "gather " + std::to_string(kPartitionsCommunicator), wait = "wait ";
  EXPECT_EQ(collectives,
            (std::vector<std::string>{scatter, wait + scatter, reduce, scatter, wait + scatter,
                                      reduce, scatter, wait + scatter, reduce, wait + reduce,
                                      gather, wait + reduce, gather, wait + reduce, gather,
                                      wait + gather, wait + gather, wait + gather}));
}

TEST(Distribute, MicroStepsReduceNothing) {
  HandMadeStep s = bucket_step(2);
  distribute(s.graph, s.buffers, s.inputs, {.world_size = 2, .accumulate = true, .reduce = false});
  for (const Node& n : s.graph.nodes) EXPECT_FALSE(n.collective) << n.layer;
}

TEST(Distribute, EveryStartHasItsWaitBehindIt) {
  for (const DistributeOptions& o :
       {DistributeOptions{.world_size = 3}, DistributeOptions{.world_size = 3, .zero_stage = 1},
        DistributeOptions{.world_size = 3, .shards = 2, .total_shards = 5}}) {
    HandMadeStep s = bucket_step(3);
    distribute(s.graph, s.buffers, s.inputs, o);
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

}  // namespace
}  // namespace runtime::parallel
