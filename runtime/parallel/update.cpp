// Cuts the update into buckets and partitions, and gathers what ranks have updated.
#include "runtime/parallel/update.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/graph/operation_set.h"

namespace runtime::parallel {

namespace {

using graph::Graph;
using graph::Kind;
using graph::kNone;
using graph::Node;
using graph::NodeList;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

class Update {
 public:
  Update(Graph& graph, graph::Rewriter& rewriter, const StepBuffers& buffers,
         const DistributeOptions& options)
      : graph_(graph), rewriter_(rewriter), buffers_(buffers), options_(options) {
    element_ = graph::dtype_bytes(graph.value(buffers.parameters).dtype);
  }

  void run(NodeList waits, NodeList updates) {
    const bool norm =
        std::any_of(updates.begin(), updates.end(), [&](const Node& n) { return !is_update(n); });
    const bool groups = std::count_if(updates.begin(), updates.end(),
                                      [&](const Node& n) { return is_optimizer(n); }) > 1;
    const bool in_one_go = norm || options_.shards > 0 || buffers_.layout.buckets.size() == 1;
    if (!partitioned() && in_one_go && !groups && buffers_.layout.cuts.empty()) {
      append(graph_.nodes, waits);
      const ValueId gradients = whole_gradients();
      for (Node& n : updates) {
        std::replace(n.inputs.begin(), n.inputs.end(), buffers_.gradients, gradients);
        std::replace(n.outputs.begin(), n.outputs.end(), buffers_.gradients, gradients);
      }
      return append(graph_.nodes, updates);
    }
    if (partitioned()) shrink_state(updates);
    if (norm) append(graph_.nodes, waits);
    for (const Node& n : updates) {
      if (!is_update(n)) norm_node(n);
    }
    by_bucket(std::move(waits), updates);
    append(graph_.nodes, gathers_);
  }

 private:
  bool partitioned() const { return options_.zero_partitions(1); }
  bool is_update(const Node& n) const { return graph::is_update(kind_of(graph_, n)); }
  bool is_optimizer(const Node& n) const { return kind_of(graph_, n) == Kind::kOptimizer; }

  // Each bucket's update follows the wait for its gradients. The waits are in the order in which
  // buckets are reduced, from the last to the first.
  void by_bucket(NodeList waits, const NodeList& updates) {
    const size_t buckets = buffers_.layout.buckets.size();
    size_t b = buckets;
    for (Node& wait : waits) {
      const bool of_bucket = is_gradient(wait);
      graph_.nodes.push_back(std::move(wait));
      if (of_bucket && options_.shards == 0) update_bucket(--b, updates);
    }
    while (b > 0) update_bucket(--b, updates);
  }

  bool is_gradient(const Node& wait) const {
    return graph_.storage(wait.outputs[0]) == buffers_.gradients;
  }

  Bucket own_partition(const Bucket& bucket) const {
    return partitioned() ? bucket.partition(options_.partition(), options_.partitions()) : bucket;
  }

  // The fraction of the flat buffer that `part` is, and so of the time of an update of all of it.
  double share(const Bucket& part) const {
    return static_cast<double>(part.bytes()) / static_cast<double>(buffers_.layout.bytes);
  }

  ValueId view(ValueId base, uint64_t begin, const Bucket& range) {
    return rewriter_.view(base, begin, static_cast<int64_t>(range.bytes() / element_));
  }

  // The same range of the 16-bit copy of the parameters, which lies at proportional offsets.
  ValueId narrow_view(const Bucket& range) {
    const uint64_t bytes = graph::dtype_bytes(graph_.value(buffers_.narrow).dtype);
    return view(buffers_.narrow, range.begin / element_ * bytes, range);
  }

  // The gradients without the loss, which may be stored after them so that one collective reduces
  // both.
  ValueId whole_gradients() {
    const uint64_t bytes = buffers_.layout.bytes;
    if (buffers_.gradients == kNone || graph_.value(buffers_.gradients).bytes == bytes)
      return buffers_.gradients;
    return view(buffers_.gradients, 0, Bucket{0, bytes});
  }

  bool is_flat_state(ValueId v) const {
    return graph_.value(v).kind == ValueKind::kState && v != buffers_.gradients &&
           graph::element_count(graph_.value(v).dims) > 1;
  }

  void update_bucket(size_t b, const NodeList& updates) {
    const Bucket& bucket = buffers_.layout.buckets[b];
    const Bucket part = own_partition(bucket);
    const uint64_t state = partitioned() ? bucket.begin / options_.partitions() : bucket.begin;
    const bool gathers = partitioned() && !options_.zero_partitions(3) && !updates.empty();
    size_t group = 0;  // of the next optimizer
    for (const Node& node : updates) {
      if (!is_update(node)) continue;
      const bool of_group = is_optimizer(node) || kind_of(graph_, node) == Kind::kDecay;
      const Bucket range = of_group ? part.of_group(group) : part;
      update_range(node, range, state + range.begin - part.begin);
      if (is_optimizer(node)) ++group;
    }
    if (!gathers) return;
    graph::CollectivePair gather =
        rewriter_.collective(RT_ALL_GATHER, 0, view(buffers_.parameters, part.begin, part),
                             view(buffers_.parameters, bucket.begin, bucket),
                             options_.partitions_communicator(), "parameters");
    gather.start.phase = gather.wait.phase = Phase::kUpdate;
    graph_.nodes.push_back(std::move(gather.start));
    gathers_.push_back(std::move(gather.wait));
  }

  // `state`: the byte at which the range begins in the optimizer state.
  void update_range(Node node, const Bucket& range, uint64_t state) {
    if (range.bytes() == 0) return;
    node.estimated_ns *= share(range);
    const auto cut = [&](ValueId v) {
      if (v == buffers_.narrow) return narrow_view(range);
      const bool parameters = v == buffers_.parameters;
      if (!parameters && v != buffers_.gradients && !is_flat_state(v)) return v;
      const bool whole = parameters ? !options_.zero_partitions(3)
                                    : v == buffers_.gradients && !options_.zero_partitions(2);
      return view(v, whole ? range.begin : state, range);
    };
    graph::replace(node.inputs, cut);
    graph::replace(node.outputs, cut);
    graph_.nodes.push_back(std::move(node));
  }

  void shrink_state(const NodeList& updates) {
    for (const Node& node : updates) {
      for (ValueId v : node.inputs) {
        if (!is_update(node) || !is_flat_state(v)) continue;
        graph_.resize(
            v, {static_cast<int64_t>(buffers_.layout.bytes / element_) / options_.partitions()});
        for (uint64_t& cut : graph_.value(v).cuts) cut /= options_.partitions();
      }
    }
  }

  // The norm of the whole gradient. With partitioned state a rank adds up the squares of its ZeRO
  // partition, and an all-reduce adds up these sums. Of gradients in several buffers it adds up the
  // squares of each.
  void norm_node(Node node) {
    const bool is_term = operation_of(graph_, node).forward.split == graph::SplitRule::kTerm;
    if ((partitioned() || is_cut()) && is_term) {
      square_sum(node);
    } else if (partitioned() && kind_of(graph_, node) == Kind::kGradientScale) {
      const ValueId total = rewriter_.temporary(node.inputs[0], {1});
      const graph::CollectivePair all = rewriter_.collective(
          RT_ALL_REDUCE, RT_SUM, node.inputs[0], total, options_.partitions_communicator(), "norm");
      node.inputs[0] = total;
      for (const Node& n : {all.start, all.wait}) graph_.nodes.push_back(n);
      // Another order of sums would let the copies part.
      if (options_.has_replicas()) {
        const graph::CollectivePair same =
            rewriter_.transfer(RT_BROADCAST, total, 0, kReplicasCommunicator, "norm");
        for (const Node& n : {same.start, same.wait}) graph_.nodes.push_back(n);
      }
      graph_.nodes.push_back(node);
    } else if ((partitioned() || is_cut()) && !node.inputs.empty() &&
               graph_.storage(node.inputs[0]) == buffers_.gradients) {
      throw DeviceError(
          (partitioned() ? std::string("zero_stage")
                         : std::string("gradients in several buffers")) +
          " with max_norm or mixed_precision = \"f16\" needs the operation square_sum, which the "
          "device does not offer; " +
          (partitioned() ? "set zero_stage to 0, or do without them" : "do without them"));
    } else {
      graph_.nodes.push_back(std::move(node));
    }
  }

  bool is_cut() const { return !buffers_.layout.cuts.empty(); }

  // What the rank has of a range of the gradients. Its partitions of all buckets lie one behind the
  // other from stage 2 on, so that pieces of several buckets are one, unless a buffer ends between
  // them. Without partitions the same holds for the buckets.
  std::vector<Held> own_pieces(const Bucket& range) const {
    const bool joins = options_.zero_partitions(2) || !partitioned();
    const std::vector<uint64_t>& cuts = graph_.value(buffers_.gradients).cuts;
    std::vector<Held> pieces;
    for (const Held& h : held(buffers_.layout, range, partitioned() ? options_.partition() : 0,
                              partitioned() ? options_.partitions() : 1)) {
      const bool follows = joins && !pieces.empty() &&
                           pieces.back().at + pieces.back().end - pieces.back().begin == h.at &&
                           !std::binary_search(cuts.begin(), cuts.end(), h.at);
      if (follows)
        pieces.back().end += h.end - h.begin;
      else
        pieces.push_back(h);
    }
    return pieces;
  }

  // The squares of those bytes of the node's range that this rank has, by piece.
  void square_sum(const Node& node) {
    Bucket range;
    for (ValueId v = node.inputs[0]; v != buffers_.gradients; v = graph_.value(v).base)
      range.begin += graph_.value(v).offset;
    range.end = range.begin + graph::canonical_bytes(graph_.value(node.inputs[0]));
    const std::vector<Held> own = own_pieces(range);
    const ValueId total = node.outputs[0];
    if (own.empty()) {
      graph_.nodes.push_back(rewriter_.node(RT_OP_FILL, node.layer, node.phase, {}, {total}));
      graph_.nodes.back().attributes = {{RT_ATTR_VALUE, 0.0}};
    }
    ValueId sum = kNone;
    for (const Held& h : own) {
      const bool last = &h == &own.back();
      Node piece = node;
      piece.estimated_ns *= share({h.begin, h.end});
      piece.inputs = {
          view(buffers_.gradients, options_.zero_partitions(2) ? h.at : h.begin, {h.begin, h.end})};
      const ValueId square = last && sum == kNone ? total : rewriter_.temporary(total, {1});
      piece.outputs = {square};
      graph_.nodes.push_back(std::move(piece));
      if (sum == kNone) {
        sum = square;
        continue;
      }
      const ValueId added = last ? total : rewriter_.temporary(total, {1});
      graph_.nodes.push_back(rewriter_.add(sum, square, added, "norm"));
      sum = added;
    }
  }

  Graph& graph_;
  graph::Rewriter& rewriter_;
  const StepBuffers& buffers_;
  const DistributeOptions& options_;
  uint64_t element_ = 4;
  NodeList gathers_;
};

}  // namespace

void distribute_update(Graph& graph, graph::Rewriter& rewriter, const StepBuffers& buffers,
                       const DistributeOptions& options, NodeList waits, NodeList updates) {
  Update(graph, rewriter, buffers, options).run(std::move(waits), std::move(updates));
}

void cut_update(Graph& graph, const StepBuffers& buffers) {
  graph::Rewriter rewriter(graph);
  NodeList updates = std::move(graph.nodes);
  graph.nodes.clear();
  distribute_update(graph, rewriter, buffers, {}, {}, std::move(updates));
}

}  // namespace runtime::parallel
