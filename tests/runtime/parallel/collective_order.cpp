// Plays the collectives of all ranks one by one, and tells where they would wait for ever.
#include "tests/runtime/parallel/collective_order.h"

#include <array>
#include <deque>
#include <set>

#include "rt/communicator.h"

namespace runtime::parallel {

namespace {

using graph::Collective;
using graph::Graph;
using graph::Node;

struct Call {
  Collective what;
  int64_t sent = -1, received = -1;  // number of elements; -1: no such buffer
  rt_dtype dtype = 0;

  std::string text() const {
    return "kind " + std::to_string(what.kind) + " on communicator " +
           std::to_string(what.communicator) + ", peer " + std::to_string(what.peer) + ", " +
           std::to_string(sent) + " -> " + std::to_string(received) + " elements";
  }
};

Call call_of(const Graph& graph, const Node& node) {
  Call call{*node.collective};
  const auto add = [&](const std::vector<graph::ValueId>& values, int64_t& elements) {
    if (values.empty()) return;
    elements = graph::element_count(graph.value(values[0]).dims);
    call.dtype = graph.value(values[0]).dtype;
  };
  add(node.inputs, call.sent);
  add(node.outputs, call.received);
  return call;
}

struct Rank {
  const Graph* graph = nullptr;
  MeshPlace place;
  size_t at = 0;
  std::array<std::deque<Call>, kCommunicators> queues = {};  // calls that have not completed
  std::set<int32_t> over = {};                               // tokens of completed calls

  bool ended() const { return at == graph->nodes.size(); }
  const Call* front(int communicator) const {
    return queues[communicator].empty() ? nullptr : &queues[communicator].front();
  }

  // Executes the next node, unless it waits for a collective; returns whether it did.
  bool advance() {
    if (ended()) return false;
    const Node& node = graph->nodes[at];
    if (const auto& c = node.collective) {
      if (c->wait && !over.contains(c->token)) return false;
      if (!c->wait) queues[c->communicator].push_back(call_of(*graph, node));
    }
    ++at;
    return true;
  }

  void finish(int communicator) {
    over.insert(front(communicator)->what.token);
    queues[communicator].pop_front();
  }
};

class Play {
 public:
  Play(const std::vector<Graph>& graphs, const Mesh& mesh) : mesh_(mesh) {
    for (size_t r = 0; r < graphs.size(); ++r)
      ranks_.push_back({&graphs[r], mesh.place_of(static_cast<int>(r))});
  }

  std::string run() {
    for (bool progress = true; progress && problem_.empty();) {
      progress = false;
      for (Rank& rank : ranks_) {
        while (rank.advance()) progress = true;
      }
      for (Rank& rank : ranks_) {
        for (int c = 0; c < kCommunicators && problem_.empty(); ++c)
          progress |= communicate(rank, c);
      }
    }
    return problem_.empty() ? stuck() : problem_;
  }

 private:
  // The ranks that share a communicator with `rank`, in their order.
  std::vector<Rank*> members(const Rank& rank, int communicator) {
    std::vector<Rank*> list;
    for (const int member : mesh_.members(communicator, mesh_.rank_of(rank.place)))
      list.push_back(&ranks_[member]);
    return list;
  }

  static int place_on(const Rank& rank, int communicator) {
    const int axis = axis_of(communicator);
    return axis == kDataAxis     ? rank.place.data
           : axis == kTensorAxis ? rank.place.tensor
                                 : rank.place.pipeline;
  }

  // Completes the rank's first call on the communicator if all its ranks have made theirs.
  bool communicate(Rank& rank, int communicator) {
    const Call* const call = rank.front(communicator);
    if (call == nullptr) return false;
    const std::vector<Rank*> all = members(rank, communicator);
    if (call->what.is_transfer()) return transfer(rank, *all.at(call->what.peer), communicator);
    for (const Rank* other : all) {
      const Call* const theirs = other->front(communicator);
      if (theirs == nullptr || theirs->what.is_transfer()) return false;
      if (!agree(*call, *theirs)) return disagree(rank, *other, communicator);
    }
    for (Rank* member : all) member->finish(communicator);
    return true;
  }

  bool transfer(Rank& from, Rank& to, int communicator) {
    const Call& sent = *from.front(communicator);
    const Call* const received = to.front(communicator);
    if (sent.what.kind != RT_SEND || received == nullptr || received->what.kind != RT_RECEIVE ||
        received->what.peer != place_on(from, communicator))
      return false;
    if (sent.sent != received->received || sent.dtype != received->dtype)
      return disagree(from, to, communicator);
    from.finish(communicator);
    to.finish(communicator);
    return true;
  }

  static bool agree(const Call& a, const Call& b) {
    return a.what.kind == b.what.kind && a.what.reduction == b.what.reduction &&
           a.what.peer == b.what.peer && a.sent == b.sent && a.received == b.received &&
           a.dtype == b.dtype;
  }

  std::string name(const Rank& rank) const {
    return "rank " + std::to_string(mesh_.rank_of(rank.place));
  }

  bool disagree(const Rank& a, const Rank& b, int communicator) {
    problem_ = name(a) + " calls " + a.front(communicator)->text() + ", " + name(b) + " calls " +
               b.front(communicator)->text();
    return false;
  }

  std::string stuck() const {
    std::string text;
    for (const Rank& rank : ranks_) {
      if (!rank.ended()) text += name(rank) + " stops at node " + std::to_string(rank.at) + "\n";
      for (const auto& queue : rank.queues) {
        if (!queue.empty()) text += name(rank) + " waits in " + queue.front().text() + "\n";
      }
    }
    return text;
  }

  const Mesh mesh_;
  std::vector<Rank> ranks_;
  std::string problem_;
};

}  // namespace

std::string find_deadlock(const std::vector<Graph>& graphs, const Mesh& mesh) {
  return Play(graphs, mesh).run();
}

}  // namespace runtime::parallel
