// The order of transfers, on communicators that carry out one call after the other: nobody may wait
// for ever.
#include "runtime/parallel/unroll.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "tests/runtime/parallel/pipeline_step.h"

namespace runtime::parallel {
namespace {

using graph::Node;

struct Call {
  int32_t kind, token;
  int peer;
  graph::Dims dims;
};

// Ranks that run their nodes in order. A communicator begins a call when all before it are done,
// and a transfer needs both ends.
class Machine {
 public:
  explicit Machine(Net net, const ScheduleOptions& options) {
    for (int r = 0; r < options.ranks; ++r) {
      RankStep step(net, 2, options, r);
      step.unroll();
      graphs_.push_back(std::move(step.step.graph));
    }
    at_.resize(options.ranks);
    queues_.resize(options.ranks);
    done_.resize(options.ranks);
  }

  // Whether all ranks come to their end.
  bool run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t r = 0; r < graphs_.size(); ++r) {
        while (step(r)) progress = true;
      }
      while (communicate()) progress = true;
    }
    for (size_t r = 0; r < graphs_.size(); ++r) {
      if (at_[r] < graphs_[r].nodes.size() || !queues_[r].empty()) return false;
    }
    return true;
  }

 private:
  bool step(size_t r) {
    if (at_[r] == graphs_[r].nodes.size()) return false;
    const Node& n = graphs_[r].nodes[at_[r]];
    if (n.collective) {
      const auto& c = *n.collective;
      if (c.wait && !done_[r].contains(c.token)) return false;
      const graph::ValueId v = n.inputs.empty() ? n.outputs[0] : n.inputs[0];
      if (!c.wait) queues_[r].push_back({c.kind, c.token, c.peer, graphs_[r].value(v).dims});
    }
    ++at_[r];
    return true;
  }

  void finish(size_t r) {
    done_[r].insert(queues_[r].front().token);
    queues_[r].pop_front();
  }

  bool communicate() {
    bool all_broadcast = true;
    for (size_t r = 0; r < queues_.size(); ++r) {
      all_broadcast &= !queues_[r].empty() && queues_[r].front().kind == RT_BROADCAST;
      if (queues_[r].empty() || queues_[r].front().kind != RT_SEND) continue;
      const Call& sent = queues_[r].front();
      const std::deque<Call>& theirs = queues_[sent.peer];
      if (theirs.empty() || theirs.front().kind != RT_RECEIVE ||
          theirs.front().peer != static_cast<int>(r))
        continue;
      EXPECT_EQ(theirs.front().dims, sent.dims);
      finish(sent.peer);
      finish(r);
      return true;
    }
    if (!all_broadcast) return false;
    for (size_t r = 0; r < queues_.size(); ++r) finish(r);
    return true;
  }

  std::vector<graph::Graph> graphs_;
  std::vector<size_t> at_;
  std::vector<std::deque<Call>> queues_;
  std::vector<std::set<int32_t>> done_;
};

TEST(Unroll, NobodyWaitsForEverEvenWithoutOverlap) {
  for (const Net net : {Net::kMlp, Net::kConv}) {
    for (int ranks = 2; ranks <= 4; ++ranks) {
      for (int m = 1; m <= 8; ++m) {
        for (const bool backward : {true, false}) {
          for (const ScheduleKind kind :
               {ScheduleKind::kGpipe, ScheduleKind::kOneForwardOneBackward})
            EXPECT_TRUE(Machine(net, {kind, ranks, m, 1, backward}).run()) << ranks << ' ' << m;
          if (ranks > 3 || (backward && m % ranks != 0)) continue;
          EXPECT_TRUE(Machine(net, {ScheduleKind::kInterleaved, ranks, m, 2, backward}).run())
              << ranks << ' ' << m;
        }
      }
    }
  }
}

// A receive is started before the slot that needs it, so that it can go on beside the one before.
TEST(Unroll, TransfersOverlapComputing) {
  RankStep step(Net::kConv, 2, {ScheduleKind::kOneForwardOneBackward, 2, 8}, 1);
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
