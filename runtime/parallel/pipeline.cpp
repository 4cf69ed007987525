// Keeps the nodes of this rank's stages, and inserts sends and receives for what crosses.
#include "runtime/parallel/pipeline.h"

#include <algorithm>
#include <set>

#include "runtime/error.h"
#include "runtime/graph/rewriter.h"
#include "runtime/parallel/mesh.h"

namespace runtime::parallel {

namespace {

using graph::Dims;
using graph::Graph;
using graph::Node;
using graph::NodeList;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

constexpr size_t kNowhere = SIZE_MAX;

// A value that one rank computes and another rank reads.
struct Transfer {
  size_t writer;  // index of a node
  ValueId value;  // storage value
  int to;         // pipeline rank
  size_t reader;  // index of the first node there that reads it
  auto operator<=>(const Transfer&) const = default;
};

class Cut {
 public:
  Cut(Graph& graph, Pipeline& pipeline, std::map<ValueId, ValueId>& gradients)
      : graph_(graph),
        pipeline_(pipeline),
        gradients_(gradients),
        rewriter_(graph),
        dropped_(graph.nodes.size()),
        writer_(graph.values.size(), kNowhere),
        readers_(graph.values.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (ValueId v : graph.nodes[i].inputs) ++readers_[graph.storage(v)];
      for (ValueId v : graph.nodes[i].outputs) writer_[graph.storage(v)] = i;
    }
  }

  void run() {
    for (auto it = gradients_.begin(); it != gradients_.end();)
      it = keep_own_part(it->first, it->second) ? std::next(it) : gradients_.erase(it);
    const std::vector<Transfer> transfers = find_transfers();
    const int32_t first_token = graph_.tokens;
    std::vector<NodeList> before(graph_.nodes.size()), after(graph_.nodes.size());
    for (size_t t = 0; t < transfers.size(); ++t)
      emit_transfer(transfers[t], first_token + static_cast<int32_t>(t), before, after);
    graph_.tokens = first_token + static_cast<int32_t>(transfers.size());
    NodeList nodes;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      append(nodes, before[i]);
      if (!dropped_[i] && rank_of(i) == pipeline_.rank) nodes.push_back(std::move(graph_.nodes[i]));
      append(nodes, after[i]);
    }
    append(nodes, sums_);
    graph_.nodes = std::move(nodes);
  }

 private:
  int rank_of(size_t node) const {
    return pipeline_.stages.of(graph_.nodes[node]) % pipeline_.schedule.ranks;
  }

  // ---- gradients

  // Collects the terms of a gradient that is a sum (as storage values) and the nodes that add them.
  // A sum with other readers counts as one term.
  void terms(ValueId gradient, int readers, std::vector<ValueId>& values,
             std::vector<size_t>& adds) const {
    const ValueId s = graph_.storage(gradient);
    const size_t w = writer_[s];
    const bool is_sum = w != kNowhere && readers_[s] == readers &&
                        graph_.nodes[w].op == RT_OP_ADD &&
                        graph_.nodes[w].phase == Phase::kBackward && same_sizes(graph_.nodes[w]);
    if (!is_sum) return values.push_back(s);
    adds.push_back(w);
    for (ValueId v : graph_.nodes[w].inputs) terms(v, 1, values, adds);
  }

  bool same_sizes(const Node& add) const {
    const auto count = [&](ValueId v) { return graph::element_count(graph_.value(v).dims); };
    return count(add.inputs[0]) == count(add.outputs[0]) &&
           count(add.inputs[1]) == count(add.outputs[0]);
  }

  // Reduces `gradient` to the terms that this rank computes; returns false if there are none.
  bool keep_own_part(ValueId parameter, ValueId& gradient) {
    std::vector<ValueId> all, own;
    std::vector<size_t> adds;
    terms(gradient, 0, all, adds);
    std::set<int> ranks;
    for (ValueId v : all) {
      if (writer_[v] == kNowhere) continue;  // a constant, which every rank has
      ranks.insert(rank_of(writer_[v]));
      if (rank_of(writer_[v]) == pipeline_.rank) own.push_back(v);
    }
    check_readers(parameter, ranks);
    if (ranks.size() > 1) {
      for (size_t i : adds) dropped_[i] = true;
      if (!own.empty()) gradient = sum(own, gradient);
      pipeline_.shared.push_back(
          {parameter, own.empty() ? graph::kNone : gradient, {ranks.begin(), ranks.end()}});
    }
    return !own.empty();
  }

  // A rank that reads a parameter must compute a term of its gradient, because it updates its copy.
  void check_readers(ValueId parameter, const std::set<int>& ranks) const {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const std::vector<ValueId>& inputs = graph_.nodes[i].inputs;
      const bool reads = std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) {
        return graph_.storage(v) == graph_.storage(parameter);
      });
      if (!reads || ranks.contains(rank_of(i))) continue;
      throw ConfigurationError("parameter '" + graph_.value(parameter).name +
                               "' is read by layer '" + graph_.nodes[i].layer +
                               "' on pipeline rank " + std::to_string(rank_of(i)) +
                               ", which computes no gradient of it; give the layers that "
                               "read it the same `stage`");
    }
  }

  // Adds the terms behind all other nodes, in the slot of the last term.
  ValueId sum(const std::vector<ValueId>& values, ValueId like) {
    const Dims dims = graph_.value(like).dims;
    const auto last = std::max_element(values.begin(), values.end(), [&](ValueId a, ValueId b) {
      return writer_[a] < writer_[b];
    });
    const Node because = graph_.nodes[writer_[*last]];
    ValueId total = graph_.reshape(values[0], dims);
    for (size_t i = 1; i < values.size(); ++i) {
      const ValueId added = rewriter_.temporary(like, dims);
      sums_.push_back(rewriter_.add(total, graph_.reshape(values[i], dims), added, because.layer));
      sums_.back().origin = because.origin;
      total = added;
    }
    return total;
  }

  // ---- transfers

  std::vector<Transfer> find_transfers() const {
    std::map<std::pair<ValueId, int>, Transfer> found;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (dropped_[i]) continue;
      for (ValueId v : graph_.nodes[i].inputs) {
        const ValueId s = graph_.storage(v);
        const ValueKind kind = graph_.value(s).kind;
        const size_t w = writer_[s];
        if (w == kNowhere || kind == ValueKind::kParameter || kind == ValueKind::kState) continue;
        if (rank_of(w) != rank_of(i))
          found.try_emplace({s, rank_of(i)}, Transfer{w, s, rank_of(i), i});
      }
    }
    std::vector<Transfer> transfers;
    for (const auto& [key, transfer] : found) transfers.push_back(transfer);
    std::sort(transfers.begin(), transfers.end());
    return transfers;
  }

  // The start of a receive belongs to the slot of the sender, its wait to the slot of the reader.
  void emit_transfer(const Transfer& t, int32_t token, std::vector<NodeList>& before,
                     std::vector<NodeList>& after) {
    const int from = rank_of(t.writer);
    const bool sends = from == pipeline_.rank;
    if (!sends && t.to != pipeline_.rank) return;
    // No layer's name begins with this prefix, so passes over layers leave transfers alone.
    const std::string layer = "pipeline " + graph_.nodes[t.writer].layer;
    graph::CollectivePair pair = rewriter_.transfer(
        sends ? RT_SEND : RT_RECEIVE, t.value, sends ? t.to : from, kPipelineCommunicator, layer);
    const auto place = [&](Node& n, size_t like) {
      n.collective->token = token;
      n.origin = graph_.nodes[like].origin;
      n.phase = graph_.nodes[like].phase;
      (sends ? after[t.writer] : before[t.reader]).push_back(std::move(n));
    };
    place(pair.start, t.writer);
    place(pair.wait, sends ? t.writer : t.reader);
  }

  Graph& graph_;
  Pipeline& pipeline_;
  std::map<ValueId, ValueId>& gradients_;
  graph::Rewriter rewriter_;
  std::vector<char> dropped_;   // by node
  std::vector<size_t> writer_;  // by storage value: the last node that writes it
  std::vector<int> readers_;    // by storage value
  NodeList sums_;
};

}  // namespace

void cut_stages(Graph& graph, Pipeline& pipeline, std::map<ValueId, ValueId>& gradients) {
  Cut(graph, pipeline, gradients).run();
}

bool is_read(const Graph& graph, ValueId value) {
  const ValueId s = graph.storage(value);
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
    return std::any_of(n.inputs.begin(), n.inputs.end(),
                       [&](ValueId v) { return graph.storage(v) == s; });
  });
}

}  // namespace runtime::parallel
