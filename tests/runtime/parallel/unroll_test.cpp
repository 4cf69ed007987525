// The order of transfers on communicators that do one call after the other: no rank may wait for
// ever.
#include "runtime/parallel/unroll.h"

#include <gtest/gtest.h>

#include "tests/runtime/parallel/collective_order.h"
#include "tests/runtime/parallel/pipeline_step.h"

namespace runtime::parallel {
namespace {

using graph::Node;

std::string deadlock(Net net, const ScheduleOptions& options) {
  std::vector<graph::Graph> graphs;
  for (int r = 0; r < options.ranks; ++r) {
    RankStep step(net, 2, options, r);
    step.unroll();
    graphs.push_back(std::move(step.step.graph));
  }
  return find_deadlock(graphs, {.pipeline = options.ranks});
}

TEST(Unroll, NobodyWaitsForEverEvenWithoutOverlap) {
  for (const Net net : {Net::kMlp, Net::kConv}) {
    for (int ranks = 2; ranks <= 4; ++ranks) {
      for (int m = 1; m <= 8; ++m) {
        for (const bool backward : {true, false}) {
          for (const ScheduleKind* kind : {schedule_kind("gpipe"), schedule_kind("1f1b")})
            EXPECT_EQ(deadlock(net, {kind, ranks, m, 1, backward}), "") << ranks << ' ' << m;
          if (ranks > 3 || (backward && m % ranks != 0)) continue;
          EXPECT_EQ(deadlock(net, {schedule_kind("interleaved"), ranks, m, 2, backward}), "")
              << ranks << ' ' << m;
        }
      }
    }
  }
}

// A rank whose neighbour has cut the model elsewhere waits for ever; the check names the place.
TEST(Unroll, RanksThatCutDifferentlyAreFound) {
  const ScheduleOptions options = {schedule_kind("1f1b"), 2, 2};
  std::vector<graph::Graph> graphs;
  for (int r = 0; r < 2; ++r) {
    RankStep step(Net::kConv, 2, options, r, 1, {{"conv1", r}});
    step.unroll();
    graphs.push_back(std::move(step.step.graph));
  }
  EXPECT_NE(find_deadlock(graphs, {.pipeline = 2}), "");
}

// A receive starts before the slot that needs it, so that it overlaps the slot before.
TEST(Unroll, TransfersOverlapComputing) {
  RankStep step(Net::kConv, 2, {schedule_kind("1f1b"), 2, 8}, 1);
  step.unroll();
  int computing = 0, receives = 0, hidden = 0;
  std::map<int32_t, int> started;
  for (const Node& n : step.step.graph.nodes) {
    if (!n.collective) ++computing;
    if (!n.collective || n.collective->kind != RT_RECEIVE) continue;
    if (!n.collective->wait) {
      started[n.collective->token] = computing;
    } else {
      ++receives;
      hidden += computing - started.at(n.collective->token) > 5;
    }
  }
  EXPECT_GE(receives, 8);
  EXPECT_GE(hidden, receives - 2);
}

}  // namespace
}  // namespace runtime::parallel
