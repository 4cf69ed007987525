// Compares predict() with a plain simulation, which looks through all ranks before each node, over
// random pipelines.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>

#include "runtime/graph/rewriter.h"
#include "runtime/parallel/predict.h"

namespace runtime::parallel {
namespace {

using graph::Graph;
using graph::Node;

constexpr int kRounds = 4;  // as predict() plays

// Adds a step of a pipeline: for each micro-batch a rank receives, computes and sends on, and the
// same back; in between and at the end it reduces gradients.
class RandomStep {
 public:
  explicit RandomStep(unsigned seed) : random_(seed) {}

  StepGraphs make(int places, int micro_batches) {
    StepGraphs graphs;
    for (int place = 0; place < places; ++place) {
      auto graph = std::make_shared<Graph>();
      const int step = 1, back = -1;
      for (int i = 0; i < micro_batches; ++i) pass(*graph, place, places, step);
      for (int i = 0; i < micro_batches; ++i) {
        pass(*graph, place, places, back);
        if (number(0, 2) == 0) bucket(*graph);
      }
      bucket(*graph);
      graphs.push_back({graph, graph});  // two micro-steps run the same program
    }
    return graphs;
  }

  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

 private:
  void pass(Graph& graph, int place, int places, int direction) {
    const int from = place - direction, to = place + direction;
    if (from >= 0 && from < places) transfer(graph, RT_RECEIVE, from, 0);
    compute(graph);
    if (to >= 0 && to < places) transfer(graph, RT_SEND, to, number(0, 1));
  }
  void transfer(Graph& graph, int kind, int peer, int between) {
    const auto pair =
        graph::Rewriter(graph).transfer(kind, vector(graph), peer, kPipelineCommunicator, "x");
    add(graph, pair, between);
  }
  void bucket(Graph& graph) {
    const graph::ValueId v = vector(graph);
    add(graph,
        graph::Rewriter(graph).collective(RT_ALL_REDUCE, RT_SUM, v, v, kGradientsCommunicator, "b"),
        number(0, 2));
  }
  void add(Graph& graph, const graph::CollectivePair& pair, int between) {
    graph.nodes.push_back(pair.start);
    for (int i = 0; i < between; ++i) compute(graph);
    graph.nodes.push_back(pair.wait);
  }
  void compute(Graph& graph) {
    Node n;
    n.op = RT_OP_MATMUL;
    n.estimated_ns = number(0, 3000);  // often the same, so that ranks come at the same time
    graph.nodes.push_back(std::move(n));
  }
  graph::ValueId vector(Graph& graph) {
    graph::Value v;
    v.dims = {250};
    return graph.add_value(std::move(v));
  }

  std::mt19937 random_;
};

// The seconds of the last step of each rank, computing and waiting.
class Plain {
 public:
  Plain(const StepGraphs& graphs, const Mesh& mesh, const Link& link)
      : graphs_(graphs), mesh_(mesh), link_(link), players_(graphs.size()) {}

  std::vector<double> run() {
    for (;;) {
      int next = -1;
      for (int p = 0; p < static_cast<int>(players_.size()); ++p) {
        if (can_go_on(p) && (next < 0 || players_[p].now < players_[next].now)) next = p;
      }
      if (next < 0) break;
      advance(next);
    }
    std::vector<double> steps;
    for (const Player& p : players_) steps.push_back(p.now - p.began);
    return steps;
  }

 private:
  struct Player {
    size_t node = 0, program = 0;
    int round = 0;
    double now = 0, began = 0;
    std::map<int32_t, std::pair<std::string, int>> open;  // by token: path and number
    std::map<std::string, int> calls;
  };
  struct Call {
    int started = 0, needs = 1;
    double ready = 0, seconds = 0;
    std::optional<double> done;
  };

  const Graph& graph(int p) const { return *graphs_[p][players_[p].program]; }
  const Node& node(int p) const { return graph(p).nodes[players_[p].node]; }

  bool can_go_on(int p) {
    if (players_[p].round == kRounds) return false;
    const auto& c = node(p).collective;
    if (!c || !c->wait) return true;
    const Call& call = calls_[players_[p].open.at(c->token)];
    return call.started >= call.needs;
  }

  void advance(int p) {
    Player& player = players_[p];
    const Node& n = node(p);
    if (!n.collective) {
      player.now += n.estimated_ns * 1e-9;
    } else if (!n.collective->wait) {
      start(p, *n.collective);
    } else {
      Call& call = calls_[player.open.at(n.collective->token)];
      if (!call.done) call.done = std::max(player.now, call.ready) + call.seconds;
      player.now = std::max(player.now, *call.done);
    }
    if (++player.node < graph(p).nodes.size()) return;
    player.node = 0;
    if (++player.program < graphs_[p].size()) return;
    player.program = 0;
    if (++player.round < kRounds) player.began = player.now;
  }

  void start(int p, const graph::Collective& c) {
    const int from = c.kind == RT_SEND ? p : c.peer, to = c.kind == RT_SEND ? c.peer : p;
    const std::string path = c.is_transfer() ? std::to_string(from) + ">" + std::to_string(to)
                                             : "of " + std::to_string(p);
    Player& player = players_[p];
    const std::pair<std::string, int> id = {path, player.calls[path]++};
    player.open[c.token] = id;
    Call& call = calls_[id];
    call.needs = c.is_transfer() ? 2 : 1;
    call.ready = std::max(call.ready, player.now);
    call.seconds = collective_seconds(c.kind, 1000, c.is_transfer() ? 2 : mesh_.data, link_);
    if (++call.started < call.needs || !link_.in_background) return;
    call.done = std::max(free_[path], call.ready) + call.seconds;
    free_[path] = *call.done;
  }

  const StepGraphs& graphs_;
  const Mesh& mesh_;
  const Link& link_;
  std::vector<Player> players_;
  std::map<std::pair<std::string, int>, Call> calls_;
  std::map<std::string, double> free_;
};

TEST(PredictRandom, IsThePlainSimulation) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomStep step(seed);
    const int places = step.number(1, 9), micro_batches = step.number(1, 6);
    const StepGraphs graphs = step.make(places, micro_batches);
    const Mesh mesh{step.number(1, 4), 1, places};
    const Link link{1e-7, 1e9, step.number(0, 1) == 1};
    const Prediction quick = predict(graphs, mesh, one_node(link));
    const std::vector<double> plain = Plain(graphs, mesh, link).run();
    ASSERT_EQ(quick.ranks.size(), plain.size());
    for (size_t p = 0; p < plain.size(); ++p)
      EXPECT_NEAR(quick.ranks[p].step(), plain[p], 1e-12) << "seed " << seed << ", place " << p;
  }
}

}  // namespace
}  // namespace runtime::parallel
