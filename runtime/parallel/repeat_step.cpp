// Repeats the step for virtual shards or micro-batches, and adds their gradients up.
#include "runtime/parallel/repeat_step.h"

#include <set>
#include <utility>

#include "runtime/graph/rewriter.h"
#include "runtime/parallel/replicate.h"
#include "runtime/parallel/unroll.h"

namespace runtime::parallel {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeList;
using graph::Rewriter;
using graph::ValueId;

namespace {

// The buffers that the copies of the backward pass write: the gradients, or one for each virtual
// shard.
std::vector<ValueId> gradient_buffers(Graph& graph, Rewriter& rewriter, const StepBuffers& buffers,
                                      const DistributeOptions& options) {
  std::vector<ValueId> result(options.copies(), buffers.gradients);
  if (buffers.gradients == kNone || options.shards == 0) return result;
  const auto elements = static_cast<int64_t>(
      buffers.layout.bytes / graph::dtype_bytes(graph.value(buffers.gradients).dtype));
  for (size_t s = 0; s < result.size(); ++s) {
    result[s] = rewriter.value("shard_gradients." + std::to_string(s), graph::ValueKind::kState,
                               buffers.gradients, {elements});
    graph.value(result[s]).cuts = buffers.layout.cuts;
  }
  return result;
}

// Whether any node reads it, by storage value.
std::vector<bool> read_values(const Graph& graph, const NodeList& nodes) {
  std::vector<bool> read(graph.values.size(), false);
  for (const Node& n : nodes) {
    for (const ValueId input : n.inputs) read[graph.storage(input)] = true;
  }
  return read;
}

}  // namespace

std::vector<ShardValues> repeat_step(Graph& graph, StepBuffers& buffers, const ShardValues& inputs,
                                     const DistributeOptions& options) {
  Rewriter rewriter(graph);
  buffers.shard_gradients = gradient_buffers(graph, rewriter, buffers, options);
  NodeList updates = graph::take_updates(graph.nodes);
  Replicate replicate(graph, rewriter, buffers, inputs, options, buffers.shard_gradients);
  const Pipeline* const pipeline = options.pipeline;
  NodeList nodes =
      pipeline != nullptr ? unroll(graph, rewriter, replicate, *pipeline) : replicate.run();
  std::vector<bool> read;
  if (pipeline != nullptr) read = read_values(graph, nodes);
  for (std::vector<ValueId>& bucket : buffers.bucket_gradients) {
    std::set<ValueId> copies;
    for (int s = 0; s < options.copies(); ++s) copies.insert(replicate.of(s, bucket[0]));
    bucket.assign(copies.begin(), copies.end());
  }
  std::vector<ShardValues> result;
  for (int s = 0; s < options.copies(); ++s) {
    const auto of = [&](ValueId v) {
      v = replicate.of(s, v);
      const bool is_read = v != kNone && static_cast<size_t>(v) < read.size() && read[v];
      return pipeline != nullptr && !is_read ? kNone : v;
    };
    result.push_back({of(inputs.features),
                      of(inputs.target),
                      of(inputs.weight),
                      of(inputs.real),
                      of(inputs.sample_base),
                      {}});
    for (const ValueId named : inputs.named) result.back().named.push_back(of(named));
    if (pipeline == nullptr) buffers.losses.push_back(replicate.of(s, buffers.loss));
  }
  if (pipeline != nullptr) {
    const auto total = [&](ValueId v) {
      return append_total(graph, rewriter, replicate, *pipeline, v, nodes);
    };
    buffers.losses = {total(buffers.loss)};
    if (buffers.correct != kNone) buffers.correct = total(buffers.correct);
  }
  append(nodes, updates);
  graph.nodes = std::move(nodes);
  return result;
}

}  // namespace runtime::parallel
