#include "runtime/parallel/update.h"

#include <algorithm>

#include "runtime/error.h"

namespace runtime::parallel {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Phase;
using graph::ValueId;
using graph::ValueKind;

bool is_optimizer(const Node& node) { return node.op == RT_OP_SGD || node.op == RT_OP_ADAMW; }

class Update {
 public:
  Update(Graph& graph, Emit& emit, const StepBuffers& buffers, const DistributeOptions& options)
      : graph_(graph), emit_(emit), buffers_(buffers), options_(options) {
    element_ = graph::dtype_bytes(graph.value(buffers.parameters).dtype);
  }

  void run(NodeList waits, NodeList updates) {
    const bool norm =
        std::any_of(updates.begin(), updates.end(), [](const Node& n) { return !is_optimizer(n); });
    const bool in_one_go = norm || options_.shards > 0 || buffers_.layout.buckets.size() == 1;
    if (!sharded() && in_one_go && !buffers_.layout.has_vectors()) {
      append(std::move(waits));
      const ValueId gradients = whole_gradients();
      for (Node& n : updates)
        std::replace(n.inputs.begin(), n.inputs.end(), buffers_.gradients, gradients);
      return append(std::move(updates));
    }
    if (sharded()) shrink_state(updates);
    if (norm) {
      append(std::move(waits));
      waits.clear();
    }
    for (Node& n : updates) {
      if (!is_optimizer(n)) norm_node(std::move(n));
    }
    by_bucket(std::move(waits), updates);
    append(std::move(gathers_));
  }

 private:
  bool sharded() const { return options_.zero_stage > 0 && options_.world_size > 1; }

  void append(NodeList nodes) {
    for (Node& n : nodes) graph_.nodes.push_back(std::move(n));
  }

  // Each bucket's update follows the wait for it; buckets arrive in the order of their waits, from
  // the last to the first.
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

  Bucket own_part(const Bucket& bucket) const {
    return sharded() ? bucket.part(options_.rank, options_.world_size) : bucket;
  }

  // Of the work on the whole buffer.
  double share(const Bucket& part) const {
    return static_cast<double>(part.bytes()) / static_cast<double>(buffers_.layout.bytes);
  }

  ValueId view(ValueId base, uint64_t begin, const Bucket& range) {
    return emit_.view(base, begin, static_cast<int64_t>(range.bytes() / element_));
  }

  // Without what travels behind them.
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
    const Bucket part = own_part(bucket);
    const uint64_t state = sharded() ? bucket.begin / options_.world_size : bucket.begin;
    const uint64_t border = std::clamp(part.vectors, part.begin, part.end);
    for (const Node& node : updates) {
      if (!is_optimizer(node)) continue;
      update_range(node, {part.begin, border}, state);
      Node vectors = node;
      for (graph::Attribute& a : vectors.attributes) {
        if (a.name == RT_ATTR_WEIGHT_DECAY) a.value = 0.0;
      }
      update_range(vectors, {border, part.end}, state + border - part.begin);
    }
    if (!sharded()) return;
    Emit::Pair gather = emit_.collective(
        RT_ALL_GATHER, 0, view(buffers_.parameters, part.begin, part),
        view(buffers_.parameters, bucket.begin, bucket), kGradientsCommunicator, "parameters");
    gather.start.phase = gather.wait.phase = Phase::kUpdate;
    graph_.nodes.push_back(std::move(gather.start));
    gathers_.push_back(std::move(gather.wait));
  }

  // `state`: where the optimizer state of the range begins.
  void update_range(Node node, const Bucket& range, uint64_t state) {
    if (range.bytes() == 0) return;
    node.estimated_ns *= share(range);
    const auto cut = [&](ValueId& v) {
      if (v == buffers_.parameters || v == buffers_.gradients) {
        v = view(v, range.begin, range);
      } else if (is_flat_state(v)) {
        v = view(v, state, range);
      }
    };
    for (ValueId& v : node.inputs) cut(v);
    for (ValueId& v : node.outputs) cut(v);
    graph_.nodes.push_back(std::move(node));
  }

  void shrink_state(const NodeList& updates) {
    for (const Node& node : updates) {
      for (ValueId v : node.inputs) {
        graph::Value& state = graph_.value(v);
        if (!is_optimizer(node) || !is_flat_state(v)) continue;
        state.dims = {static_cast<int64_t>(buffers_.layout.bytes / element_) / options_.world_size};
        state.bytes = graph::canonical_bytes(state);
      }
    }
  }

  // The norm of the whole gradient, of which a rank with sharded state has its parts only.
  void norm_node(Node node) {
    if (!sharded() || node.op == RT_OP_CLIP_SCALE) {
      graph_.nodes.push_back(std::move(node));
      return;
    }
    if (node.op != RT_OP_SQUARE_SUM) {
      throw DeviceError(
          "zero_stage = 1 with max_norm needs the operation square_sum, which the "
          "device does not offer; set training.max_norm or zero_stage to 0");
    }
    const ValueId total = node.outputs[0];
    ValueId sum = kNone;
    for (size_t b = 0; b < buffers_.layout.buckets.size(); ++b) {
      const Bucket part = own_part(buffers_.layout.buckets[b]);
      const ValueId square = emit_.temporary(total, {1});
      Node piece = node;
      piece.estimated_ns *= share(part);
      piece.inputs = {view(buffers_.gradients, part.begin, part)};
      piece.outputs = {square};
      graph_.nodes.push_back(std::move(piece));
      if (sum != kNone) {
        const ValueId added = emit_.temporary(total, {1});
        graph_.nodes.push_back(emit_.add(sum, square, added, "norm"));
        sum = added;
      } else {
        sum = square;
      }
    }
    const Emit::Pair all =
        emit_.collective(RT_ALL_REDUCE, RT_SUM, sum, total, kGradientsCommunicator, "norm");
    graph_.nodes.push_back(all.start);
    graph_.nodes.push_back(all.wait);
  }

  Graph& graph_;
  Emit& emit_;
  const StepBuffers& buffers_;
  const DistributeOptions& options_;
  uint64_t element_ = 4;
  NodeList gathers_;
};

}  // namespace

void distribute_update(Graph& graph, Emit& emit, const StepBuffers& buffers,
                       const DistributeOptions& options, NodeList waits, NodeList updates) {
  Update(graph, emit, buffers, options).run(std::move(waits), std::move(updates));
}

void cut_update(Graph& graph, const StepBuffers& buffers) {
  Emit emit(graph);
  NodeList updates = std::move(graph.nodes);
  graph.nodes.clear();
  distribute_update(graph, emit, buffers, {}, {}, std::move(updates));
}

}  // namespace runtime::parallel
