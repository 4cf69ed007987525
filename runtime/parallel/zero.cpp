// Reduces gradients into partitions, and gathers parameters ahead of their use.
#include "runtime/parallel/zero.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace runtime::parallel {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeList;
using graph::Phase;
using graph::Place;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

namespace {

// A bucket stays in memory if at most this many other buckets are gathered before its next use.
constexpr size_t kKept = 1;

int64_t elements(const Graph& graph, ValueId like, uint64_t bytes) {
  return static_cast<int64_t>(bytes / graph::dtype_bytes(graph.value(like).dtype));
}

std::string name_of(const std::string& what, const FlatLayout& layout, size_t bucket) {
  return what + ", bucket " + std::to_string(layout.buckets.size() - 1 - bucket);
}

class Gather {
 public:
  Gather(Graph& graph, const StepBuffers& buffers, const DistributeOptions& options)
      : graph_(graph), rewriter_(graph), options_(options) {
    if (buffers.layout.bytes > 0) layouts_[buffers.parameters] = &buffers.layout;
    if (buffers.frozen_layout.bytes > 0) layouts_[buffers.frozen] = &buffers.frozen_layout;
  }

  NodeList run(NodeList nodes) {
    std::erase_if(nodes, [&](Node& node) {
      const bool packs = node.phase == Phase::kPack && bucket_of(node.inputs[0]);
      if (packs) packs_[node.outputs[0]] = std::move(node);
      return packs;
    });
    NodeList updates = graph::take_updates(nodes);
    for (size_t i = 0; i < nodes.size(); ++i) plan(nodes[i], i);
    for (const auto& [flat, layout] : layouts_)
      shrink_to_partition(graph_, flat, *layout, options_.partitions());
    NodeList out;
    for (size_t i = 0; i < nodes.size(); ++i) {
      emit_gathers(i, nodes[i].phase, out);
      graph::replace(nodes[i].inputs, [&](ValueId v) { return read(v, nodes[i].phase, out); });
      out.push_back(std::move(nodes[i]));
    }
    append(out, updates);
    return out;
  }

 private:
  struct BucketId {
    ValueId flat;
    size_t index;
    auto operator<=>(const BucketId&) const = default;
  };
  // One all-gather of a bucket, for the nodes from `first` on.
  struct Gathered {
    BucketId bucket;
    size_t first;
    ValueId whole = kNone;
    Node wait = {};
    std::map<ValueId, ValueId> copies = {};  // by view or packed parameter of the original graph
  };

  const FlatLayout& layout(const BucketId& bucket) const { return *layouts_.at(bucket.flat); }

  std::optional<BucketId> bucket_of(ValueId v) const {
    Place place = graph_.place_of(v);
    if (const auto pack = packs_.find(place.storage); pack != packs_.end())
      place = graph_.place_of(pack->second.inputs[0]);
    const auto flat = layouts_.find(place.storage);
    if (flat == layouts_.end()) return std::nullopt;
    return BucketId{flat->first, parallel::bucket_of(*flat->second, place.offset)};
  }

  void plan(const Node& node, size_t index) {
    for (ValueId v : node.inputs) {
      const std::optional<BucketId> bucket = bucket_of(v);
      if (!bucket) continue;
      const auto [use, is_new] = last_use_.try_emplace(*bucket, 0);
      if (is_new || gathered_.size() - use->second > kKept) gathered_.push_back({*bucket, index});
      use->second = gathered_.size();
    }
  }

  // Emits the waits of the buckets that node `index` is the first to use, and starts the next
  // gather.
  void emit_gathers(size_t index, Phase phase, NodeList& out) {
    for (; used_ < gathered_.size() && gathered_[used_].first == index; ++used_) {
      for (; started_ <= used_ + options_.overlap && started_ < gathered_.size(); ++started_)
        start(gathered_[started_], phase, out);
      Gathered& g = gathered_[used_];
      g.wait.phase = phase;
      out.push_back(std::move(g.wait));
      current_[g.bucket] = &g;
    }
  }

  void start(Gathered& g, Phase phase, NodeList& out) {
    const Bucket& bucket = layout(g.bucket).buckets[g.bucket.index];
    const int64_t count = elements(graph_, g.bucket.flat, bucket.bytes());
    const std::string name =
        name_of(graph_.value(g.bucket.flat).name, layout(g.bucket), g.bucket.index);
    g.whole = rewriter_.value(name, ValueKind::kTemporary, g.bucket.flat, {count});
    const ValueId own = rewriter_.view(g.bucket.flat, bucket.begin / options_.partitions(),
                                       count / options_.partitions());
    graph::CollectivePair pair = rewriter_.collective(RT_ALL_GATHER, 0, own, g.whole,
                                                      options_.partitions_communicator(), name);
    pair.start.phase = phase;
    out.push_back(std::move(pair.start));
    g.wait = std::move(pair.wait);
  }

  // The gathered instance of a node's input, or `v` itself if it is not a parameter.
  ValueId read(ValueId v, Phase phase, NodeList& out) {
    const std::optional<BucketId> bucket = bucket_of(v);
    return bucket ? copy(*current_.at(*bucket), v, phase, out) : v;
  }

  ValueId copy(Gathered& g, ValueId v, Phase phase, NodeList& out) {
    if (const auto known = g.copies.find(v); known != g.copies.end()) return known->second;
    Value value = graph_.value(v);
    if (const auto pack = packs_.find(v); pack != packs_.end()) {
      value.kind = ValueKind::kTemporary;
      Node node = pack->second;
      node.phase = phase;
      node.inputs[0] = copy(g, node.inputs[0], phase, out);
      g.copies[v] = node.outputs[0] = graph_.add_value(std::move(value));
      out.push_back(std::move(node));
      return g.copies[v];
    }
    if (value.base == g.bucket.flat) {
      value.base = g.whole;
      value.offset -= layout(g.bucket).buckets[g.bucket.index].begin;
    } else {
      value.base = copy(g, value.base, phase, out);
    }
    return g.copies[v] = graph_.add_value(std::move(value));
  }

  Graph& graph_;
  graph::Rewriter rewriter_;
  const DistributeOptions& options_;
  std::map<ValueId, const FlatLayout*> layouts_;
  std::map<ValueId, Node> packs_;  // by packed value: the node that makes it
  std::vector<Gathered> gathered_;
  std::map<BucketId, size_t> last_use_;  // by bucket: the number of gathers up to its last use
  std::map<BucketId, Gathered*> current_;
  size_t started_ = 0, used_ = 0;  // how many gathers so far
};

// The buckets with gradients of which other stages have a part, to be added after the last
// micro-batch.
std::set<size_t> shared_buckets(const Graph& graph, const StepBuffers& buffers,
                                const DistributeOptions& options) {
  std::set<size_t> buckets;
  if (options.pipeline == nullptr) return buckets;
  for (const SharedParameter& shared : options.pipeline->shared) {
    if (shared.gradient != kNone)
      buckets.insert(bucket_of(buffers.layout, graph.place_of(shared.gradient).offset));
  }
  return buckets;
}

}  // namespace

void partition_gradients(Graph& graph, StepBuffers& buffers, const DistributeOptions& options) {
  if (!options.zero_partitions(2) || buffers.gradients == kNone) return;
  graph::Rewriter rewriter(graph);
  const std::set<size_t> shared = shared_buckets(graph, buffers, options);
  for (size_t b = 0; b < buffers.layout.buckets.size(); ++b) {
    const uint64_t bytes = buffers.layout.buckets[b].bytes();
    const ValueKind kind = shared.contains(b) ? ValueKind::kState : ValueKind::kTemporary;
    buffers.bucket_gradients.push_back(
        {rewriter.value(name_of("gradients", buffers.layout, b), kind, buffers.gradients,
                        {elements(graph, buffers.gradients, bytes)})});
  }
  const auto move = [&](ValueId v) {
    while (v != kNone && graph.value(v).base != buffers.gradients) v = graph.value(v).base;
    if (v == kNone) return;
    Value& view = graph.value(v);
    const size_t b = bucket_of(buffers.layout, view.offset);
    view.base = buffers.bucket_gradients[b][0];
    view.offset -= buffers.layout.buckets[b].begin;
  };
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kUpdate) continue;
    for (ValueId v : node.inputs) move(v);
    for (ValueId v : node.outputs) move(v);
  }
}

void shrink_to_partition(Graph& graph, ValueId flat, const FlatLayout& layout, int world_size) {
  graph.resize(flat, {elements(graph, flat, layout.bytes / world_size)});
  for (uint64_t& cut : graph.value(flat).cuts) cut /= world_size;
}

void fill_gaps(Graph& graph, graph::Rewriter& rewriter, ValueId bucket, uint64_t alignment,
               const NodeList& nodes, const std::vector<size_t>& writers,
               graph::Insertions& insertions) {
  std::map<uint64_t, uint64_t> written;  // end by begin
  for (const size_t i : writers) {
    for (ValueId v : nodes[i].outputs) {
      if (v == kNone) continue;
      const Place place = graph.place_of(v);
      if (place.storage == bucket)
        written[place.offset] = place.offset + graph::canonical_bytes(graph.value(v));
    }
  }
  // A step computes its loss, or receives a gradient, before it writes any.
  NodeList& before = insertions.after(writers.empty() ? 0 : writers[0] - 1);
  uint64_t end = 0;
  written[graph.value(bucket).bytes] = 0;
  for (const auto& [begin, next] : written) {
    if (end < begin) {
      const uint64_t from = end / alignment * alignment;
      before.push_back(
          rewriter.node(RT_OP_FILL, "gradients", Phase::kBackward, {},
                        {rewriter.view(bucket, from, elements(graph, bucket, begin - from))}));
      before.back().attributes = {{RT_ATTR_VALUE, 0.0}};
    }
    end = next;
  }
}

void gather_parameters(Graph& graph, const StepBuffers& buffers, const DistributeOptions& options) {
  if (!options.zero_partitions(3)) return;
  NodeList nodes = std::exchange(graph.nodes, {});
  graph.nodes = Gather(graph, buffers, options).run(std::move(nodes));
}

}  // namespace runtime::parallel
