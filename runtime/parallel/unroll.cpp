// Copies a micro-batch's nodes slot by slot, with transfers in the order of one simulated step.
#include "runtime/parallel/unroll.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace runtime::parallel {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeList;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

StageTimes nominal_times(int stages) {
  return {std::vector<double>(stages, 1), std::vector<double>(stages, 2), {}, {}};
}

class Unroll {
 public:
  Unroll(Graph& graph, graph::Rewriter& rewriter, Replicate& replicate, const Pipeline& pipeline)
      : graph_(graph),
        rewriter_(rewriter),
        replicate_(replicate),
        pipeline_(pipeline),
        schedule_(pipeline.schedule),
        timeline_(simulate(schedule_, nominal_times(schedule_.stages()))),
        work_(2 * static_cast<size_t>(schedule_.chunks)) {}

  NodeList run() {
    sort_nodes();
    const std::vector<Slot>& slots = schedule_.slots[pipeline_.rank];
    for (const Node& receive : receives_) {
      for (int m = 0; m < schedule_.micro_batches; ++m) plan_receive(receive, m);
    }
    for (size_t k = 0; k < slots.size(); ++k) {
      for (const auto& [order, receive] : planned_[k]) copy(*receive, std::get<3>(order), out_);
      NodeList waits;
      for (const Node& node : work(slots[k].backward, slots[k].chunk)) {
        const bool later =
            node.collective && node.collective->kind == RT_SEND && node.collective->wait;
        copy(node, slots[k].micro_batch, later ? waits : out_);
      }
      append(out_, std::exchange(sent_, std::move(waits)));
    }
    append(out_, sent_);
    for (const SharedParameter& shared : pipeline_.shared) add_shared(shared);
    return std::move(out_);
  }

 private:
  NodeList& work(bool backward, int chunk) { return work_[2 * chunk + backward]; }

  void copy(const Node& node, int micro_batch, NodeList& out) {
    const size_t before = out.size();
    replicate_.copy(node, micro_batch, 1, out);
    for (size_t i = before; i < out.size(); ++i) {
      if (out[i].collective) out[i].collective->micro_batch = micro_batch + 1;
    }
  }

  // Sorts the nodes into packing, forward and backward of each chunk, and starts of receives.
  void sort_nodes() {
    // By value: phase and origin of the last writer.
    std::map<ValueId, std::pair<Phase, int32_t>> made;
    std::pair<Phase, int32_t> before;  // of the previous node
    for (Node& node : std::exchange(graph_.nodes, {})) {
      if (node.phase == Phase::kUpdate) continue;
      if (node.phase == Phase::kPack) {
        out_.push_back(std::move(node));
        continue;
      }
      if (node.origin == kNone) {
        for (ValueId v : node.inputs) {
          if (const auto it = made.find(graph_.storage(v)); it != made.end()) before = it->second;
        }
        std::tie(node.phase, node.origin) = before;
      }
      before = {node.phase, node.origin};
      for (ValueId v : node.outputs) made[graph_.storage(v)] = before;
      if (node.collective && node.collective->kind == RT_RECEIVE && !node.collective->wait) {
        receives_.push_back(std::move(node));
      } else {
        const int chunk = pipeline_.stages.of(node) / schedule_.ranks;
        work(node.phase == Phase::kBackward, chunk).push_back(std::move(node));
      }
    }
  }

  // Plans a receive at the slot that this rank is computing when the peer has the value.
  void plan_receive(const Node& receive, int micro_batch) {
    const int peer = receive.collective->peer;
    const Slot slot{receive.phase == Phase::kBackward,
                    pipeline_.stages.of(receive) / schedule_.ranks, micro_batch};
    const std::vector<Slot>& theirs = schedule_.slots[peer];
    const size_t index = std::find(theirs.begin(), theirs.end(), slot) - theirs.begin();
    const double made = timeline_.end[peer][index];
    const std::vector<double>& ends = timeline_.end[pipeline_.rank];
    size_t k = 0;
    while (std::pair(ends[k], pipeline_.rank) < std::pair(made, peer)) ++k;
    planned_[k][{made, peer, receive.collective->token, micro_batch}] = &receive;
  }

  // Adds the partial gradients of a shared parameter: each rank that has one sends it to the
  // others, and all ranks add them in rank order. Each pair of ranks starts its transfers in one
  // order.
  void add_shared(const SharedParameter& shared) {
    const auto own = std::find(shared.ranks.begin(), shared.ranks.end(), pipeline_.rank);
    if (own == shared.ranks.end()) return;
    const ValueId gradient = shared.gradient;
    const std::string layer = "pipeline " + graph_.value(gradient).name;
    std::vector<ValueId> parts;
    NodeList waits;
    const auto start = [&](int32_t kind, ValueId v, int peer) {
      graph::CollectivePair pair = rewriter_.transfer(kind, v, peer, kPipelineCommunicator, layer);
      out_.push_back(std::move(pair.start));
      waits.push_back(std::move(pair.wait));
    };
    for (int rank : shared.ranks) {
      if (rank == pipeline_.rank) {
        parts.push_back(gradient);
        continue;
      }
      parts.push_back(rewriter_.temporary(gradient, graph_.value(gradient).dims));
      if (rank > pipeline_.rank) start(RT_SEND, gradient, rank);
      start(RT_RECEIVE, parts.back(), rank);
      if (rank < pipeline_.rank) start(RT_SEND, gradient, rank);
    }
    append(out_, waits);
    ValueId sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      const ValueId added = rewriter_.temporary(gradient, graph_.value(gradient).dims);
      out_.push_back(rewriter_.add(sum, parts[i], added, layer));
      sum = added;
    }
    out_.push_back(rewriter_.copy(sum, gradient, layer));
  }

  Graph& graph_;
  graph::Rewriter& rewriter_;
  Replicate& replicate_;
  const Pipeline& pipeline_;
  const Schedule& schedule_;
  const Timeline timeline_;
  std::vector<NodeList> work_;  // by chunk and direction
  NodeList receives_;           // starts only
  // By slot: starts of receives, ordered by the time at which the value is ready, sender, token and
  // micro-batch.
  std::map<size_t, std::map<std::tuple<double, int, int32_t, int>, const Node*>> planned_;
  NodeList sent_;  // waits for the sends of the previous slot
  NodeList out_;
};

}  // namespace

NodeList unroll(Graph& graph, graph::Rewriter& rewriter, Replicate& replicate,
                const Pipeline& pipeline) {
  return Unroll(graph, rewriter, replicate, pipeline).run();
}

ValueId append_total(Graph& graph, graph::Rewriter& rewriter, Replicate& replicate,
                     const Pipeline& pipeline, ValueId value, NodeList& nodes) {
  const std::string name = graph.value(value).name;
  const ValueId total =
      rewriter.value("total " + name, ValueKind::kOutput, value, graph.value(value).dims);
  const int count = pipeline.schedule.micro_batches, ranks = pipeline.schedule.ranks;
  const int root = (pipeline.schedule.stages() - 1) % ranks;
  if (pipeline.rank == root) {
    ValueId sum = replicate.of(0, value);
    for (int m = 1; m < count; ++m) {
      const ValueId added =
          m + 1 < count ? rewriter.temporary(value, graph.value(value).dims) : total;
      nodes.push_back(rewriter.add(sum, replicate.of(m, value), added, "loss"));
      sum = added;
    }
    if (count == 1) nodes.push_back(rewriter.copy(sum, total, "loss"));
  }
  if (ranks == 1) return total;
  graph::CollectivePair pair =
      rewriter.transfer(RT_BROADCAST, total, root, kPipelineCommunicator, "pipeline " + name);
  nodes.push_back(std::move(pair.start));
  nodes.push_back(std::move(pair.wait));
  return total;
}

}  // namespace runtime::parallel
