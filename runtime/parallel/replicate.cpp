// Copies nodes and values of a shard, and merges statistics that shards share.
#include "runtime/parallel/replicate.h"

#include "runtime/graph/operation_set.h"

namespace runtime::parallel {

using graph::Dims;
using graph::kNone;
using graph::Node;
using graph::NodeCopies;
using graph::NodeList;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

namespace {

std::set<ValueId> set_of(const std::vector<ValueId>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

Replicate::Replicate(graph::Graph& graph, graph::Rewriter& rewriter, const StepBuffers& buffers,
                     const ShardValues& inputs, const DistributeOptions& options,
                     std::vector<ValueId> gradients)
    : graph_(graph),
      rewriter_(rewriter),
      buffers_(buffers),
      inputs_of_shard_(set_of(inputs.all())),
      options_(options),
      count_(options.copies()),
      gradients_(std::move(gradients)),
      copies_(count_) {
  sums_.insert(buffers.gradients);
  for (const std::vector<ValueId>& bucket : buffers.bucket_gradients) {
    if (graph.value(bucket[0]).kind == ValueKind::kState) sums_.insert(bucket[0]);
  }
  for (int s = 0; s < count_; ++s)
    nodes_.emplace_back(graph, s == 0 ? NodeCopies::Tokens::kSame : NodeCopies::Tokens::kNew);
}

bool Replicate::is_shared(ValueId storage) const {
  const ValueKind kind = graph_.value(storage).kind;
  if (shared_.contains(storage) || kind == ValueKind::kParameter || kind == ValueKind::kPacked ||
      kind == ValueKind::kState || kind == ValueKind::kConstant)
    return true;
  return kind == ValueKind::kInput && !inputs_of_shard_.contains(storage);
}

ValueId Replicate::of(int shard, ValueId v) {
  if (v == kNone) return kNone;
  if (v == buffers_.gradients) return gradients_[shard];
  if (const auto it = copies_[shard].find(v); it != copies_[shard].end()) return it->second;
  const ValueId base = graph_.value(v).base;
  if (base != kNone && sums_.contains(base) && adds(shard))
    return copies_[shard][v] = rewriter_.temporary(v, Dims(graph_.value(v).dims));
  const ValueId new_base = of(shard, base);
  const bool same = base != kNone ? new_base == base : shard == 0 || is_shared(v);
  if (same) return v;
  Value copy = graph_.value(v);
  if (shard > 0 && !copy.name.empty()) copy.name += "." + std::to_string(shard);
  copy.base = new_base;
  return copies_[shard][v] = graph_.add_value(std::move(copy));
}

// Whether the buffer holds gradients already, so that those of this copy must be added.
bool Replicate::adds(int shard) const {
  return options_.accumulate || (options_.pipeline != nullptr && shard > 0);
}

Node Replicate::copied(const Node& node, int shard) {
  const auto own = [&](ValueId v) { return of(shard, v); };
  Node copy = nodes_[shard].copy(node, own, own);
  copy.saved = of(shard, copy.saved);
  return copy;
}

// Adds through a temporary, because kernels need not work in place.
void Replicate::accumulate(ValueId gradient, int shard, const std::string& layer, NodeList& out) {
  const int64_t count = graph::element_count(graph_.value(gradient).dims);
  const ValueId sum = rewriter_.temporary(gradient, {count});
  const ValueId into = rewriter_.view(gradient, 0, count);
  out.push_back(rewriter_.add(into, rewriter_.view(of(shard, gradient), 0, count), sum, layer));
  out.push_back(rewriter_.copy(sum, into, layer));
}

// One merge node for these copies: over their rows, and with sync_batch_norm over those of all
// ranks.
void Replicate::emit_merge(const Node& node, int first, int count, NodeList& out) {
  std::vector<ValueId> parts;
  for (int s = first; s < first + count; ++s) parts.push_back(of(s, node.inputs[0]));
  ValueId rows = rewriter_.concat(std::move(parts), node.layer, out);
  const int64_t width = graph_.value(rows).dims[1];
  if (options_.sync_batch_norm && options_.world_size > 1) {
    const ValueId all = rewriter_.temporary(rows, {int64_t{count} * options_.world_size, width});
    const graph::CollectivePair gather =
        rewriter_.collective(RT_ALL_GATHER, 0, rows, all, kStatisticsCommunicator, node.layer);
    out.push_back(gather.start);
    out.push_back(gather.wait);
    rows = options_.shards > 0 ? rewriter_.view(all, 0, Dims{options_.total_shards, width}) : all;
  }
  if (count == count_) {
    for (ValueId v : node.outputs) shared_.insert(graph_.storage(v));
  }
  out.push_back(copied(node, first));
  out.back().inputs[0] = rows;
}

void Replicate::copy(const Node& node, int first, int count, NodeList& out) {
  switch (graph::operation_of(graph_, node).replication) {
    case graph::Replication::kCopied:
      break;
    case graph::Replication::kMakesRows:
      rows_.insert(node.outputs[0]);
      break;
    case graph::Replication::kMergesRows:
      if (rows_.contains(node.inputs[0])) return emit_merge(node, first, count, out);
  }
  for (int s = first; s < first + count; ++s) {
    out.push_back(copied(node, s));
    if (node.collective && !node.collective->wait) continue;  // its output is not there yet
    for (ValueId v : node.outputs) {
      if (adds(s) && v != kNone && sums_.contains(graph_.storage(v)))
        accumulate(v, s, node.layer, out);
    }
  }
}

NodeList Replicate::run() {
  NodeList out;
  const NodeList nodes = std::move(graph_.nodes);
  for (const Node& node : nodes) {
    if (node.phase == Phase::kPack) out.push_back(node);
    if (node.phase == Phase::kForward || node.phase == Phase::kBackward) copy(node, 0, count_, out);
  }
  return out;
}

}  // namespace runtime::parallel
