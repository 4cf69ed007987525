// Plays the programs of all places in turn, with queues for links and communicators.
#include "runtime/parallel/predict.h"

#include <algorithm>
#include <compare>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "runtime/error.h"

namespace runtime::parallel {

using graph::Graph;
using graph::Node;

namespace {

// Enough for the steps to reach a steady pace.
constexpr int kRounds = 4;
constexpr double kNotYet = -1;

uint64_t bytes_of(const Graph& graph, const Node& node) {
  const auto bytes = [&](const std::vector<graph::ValueId>& values) {
    return values.empty() ? 0 : graph::canonical_bytes(graph.value(values[0]));
  };
  return std::max(bytes(node.inputs), bytes(node.outputs));
}

// A first-in-first-out path. A transfer has its sender and receiver, other pipeline collectives
// have -1, -1. On the other axes both are this rank's place, since its peers there are like it.
struct Channel {
  int communicator, from, to;
  auto operator<=>(const Channel&) const = default;
};

// One collective, which `missing` of its ranks have not started yet.
struct Meeting {
  int missing = 0;
  std::vector<int> waiting;  // the players that can go on only when nobody is missing
  double ready = 0, seconds = 0, done = kNotYet;
};

// The simulated state of the rank at one place in the pipeline.
struct Player {
  size_t program = 0, node = 0;
  int round = 0;
  double now = 0;
  std::map<std::pair<size_t, int32_t>, Meeting*> open;  // by program and token
  std::map<Channel, int64_t> calls;
  RankPrediction result;  // of this round
};

class Play {
 public:
  Play(const StepGraphs& graphs, const Mesh& mesh, const Cluster& cluster)
      : graphs_(graphs), mesh_(mesh), cluster_(cluster), players_(graphs.size()) {
    for (int c = 0; c < kCommunicators; ++c) groups_[c] = widest_group(mesh, c, cluster);
  }

  Prediction run() {
    for (Player& p : players_) line_up(p);
    while (!ready_.empty()) {
      Player& next = players_[ready_.begin()->second];
      ready_.erase(ready_.begin());
      advance(next);
      line_up(next);
    }
    Prediction p;
    for (Player& player : players_) {
      if (player.round < kRounds) throw InternalError("a step in which a rank waits for ever");
      add_mean(player.result, p.times);
      p.ranks.push_back(std::move(player.result));
    }
    p.times.ranks = mesh_.size();
    p.times.sync = sum(p.times.sync_by_axis);
    p.times.exposed = sum(p.times.exposed_by_axis);
    return p;
  }

 private:
  static double sum(const ByAxis& a) { return std::accumulate(a.begin(), a.end(), 0.0); }

  void add_mean(const RankPrediction& r, StepTimes& t) const {
    const double part = 1 / static_cast<double>(players_.size());
    t.compute += part * r.compute;
    for (int axis = 0; axis < kAxes; ++axis) {
      t.sync_by_axis[axis] += part * r.sync[axis];
      t.exposed_by_axis[axis] += part * r.exposed[axis];
    }
  }

  int place(const Player& p) const { return static_cast<int>(&p - players_.data()); }
  const Graph& graph(const Player& p) const { return *graphs_[place(p)][p.program]; }
  const Node& node(const Player& p) const { return graph(p).nodes[p.node]; }

  // Puts a player among those that can go on, or among those that wait for others.
  void line_up(Player& p) {
    if (p.round == kRounds) return;
    const std::optional<graph::Collective>& c = node(p).collective;
    Meeting* const awaited = c && c->wait ? p.open.at({p.program, c->token}) : nullptr;
    if (awaited != nullptr && awaited->missing > 0) {
      awaited->waiting.push_back(place(p));
    } else {
      ready_.emplace(p.now, place(p));
    }
  }

  void advance(Player& p) {
    const Node& n = node(p);
    if (!n.collective) {
      compute(p, std::max(0.0, n.estimated_ns) * 1e-9);
    } else if (n.collective->wait) {
      wait(p, n);
    } else {
      start(p, n);
    }
    if (++p.node < graph(p).nodes.size()) return;
    p.node = 0;
    if (++p.program < graphs_[place(p)].size()) return;
    p.program = 0;
    if (++p.round < kRounds) p.result = {};
  }

  void compute(Player& p, double seconds) const {
    p.now += seconds;
    p.result.compute += seconds;
  }

  Channel channel(const Player& p, const graph::Collective& c) const {
    const int own = place(p);
    if (c.communicator != kPipelineCommunicator) return {c.communicator, own, own};
    if (!c.is_transfer()) return {c.communicator, -1, -1};
    return c.kind == RT_SEND ? Channel{c.communicator, own, c.peer}
                             : Channel{c.communicator, c.peer, own};
  }

  const Group& group(const Player& p, const graph::Collective& c) {
    if (!c.is_transfer()) return groups_[c.communicator];
    const auto [pair, is_new] = pairs_.try_emplace(std::minmax(place(p), int{c.peer}));
    if (is_new) pair->second = widest_pair(mesh_, pair->first.first, pair->first.second, cluster_);
    return pair->second;
  }

  void start(Player& p, const Node& n) {
    const graph::Collective& c = *n.collective;
    const int axis = axis_of(c.communicator);
    const Group& ranks = group(p, c);
    const Channel on = channel(p, c);
    const auto [it, is_first] = meetings_.try_emplace({on, p.calls[on]++});
    Meeting& meeting = it->second;
    if (is_first) meeting.missing = axis == kPipelineAxis ? ranks.ranks : 1;
    meeting.ready = std::max(meeting.ready, p.now);
    meeting.seconds = collective_seconds(c.kind, bytes_of(graph(p), n), ranks, cluster_);
    p.open[{p.program, c.token}] = &meeting;
    if (p.round + 1 == kRounds) record(p, n, ranks, meeting.seconds);
    if (--meeting.missing > 0) return;
    for (const int waits : meeting.waiting) ready_.emplace(players_[waits].now, waits);
    meeting.waiting.clear();
    if (!cluster_.inside.in_background) return;
    double& free = free_[on];
    meeting.done = free = std::max(free, meeting.ready) + meeting.seconds;
  }

  void record(Player& p, const Node& n, const Group& ranks, double seconds) const {
    const graph::Collective& c = *n.collective;
    const std::string name = n.op + ", " + n.layer;
    const int axis = axis_of(c.communicator);
    std::vector<CollectiveCost>& list = p.result.collectives;
    auto it = std::find_if(list.begin(), list.end(),
                           [&](const auto& l) { return l.name == name && l.axis == axis; });
    if (it == list.end()) it = list.insert(list.end(), CollectiveCost{name, axis});
    const uint64_t bytes = bytes_of(graph(p), n);
    const double wire =
        c.kind == RT_RECEIVE ? 0 : static_cast<double>(bytes) * bus_factor(c.kind, ranks.ranks);
    ++it->calls;
    it->bytes += bytes;
    it->wire_bytes += wire;
    it->between_nodes += bytes_between_nodes(c.kind, bytes, ranks);
    it->seconds += seconds;
    p.result.wire_bytes[axis] += wire;
    p.result.sync[axis] += seconds;
  }

  void wait(Player& p, const Node& n) {
    Meeting& meeting = *p.open.at({p.program, n.collective->token});
    if (meeting.done == kNotYet) meeting.done = std::max(p.now, meeting.ready) + meeting.seconds;
    const double waited = std::max(0.0, meeting.done - p.now);
    p.now += waited;
    p.result.exposed[axis_of(n.collective->communicator)] += waited;
  }

  const StepGraphs& graphs_;
  const Mesh& mesh_;
  const Cluster& cluster_;
  std::array<Group, kCommunicators> groups_;
  std::map<std::pair<int, int>, Group> pairs_;  // by the places of a transfer
  std::vector<Player> players_;
  std::set<std::pair<double, int>> ready_;  // those that can go on, the earliest clock first
  std::map<std::tuple<Channel, int64_t>, Meeting> meetings_;
  std::map<Channel, double> free_;  // when the last collective of a channel ends
};

}  // namespace

Prediction predict(const StepGraphs& graphs, const Mesh& mesh, const Cluster& cluster) {
  return Play(graphs, mesh, cluster).run();
}

}  // namespace runtime::parallel
