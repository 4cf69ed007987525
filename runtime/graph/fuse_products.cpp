// Fusions of matrix products with more than one result. fuse() comes before, so the products have
// their biases already.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "rt/sdk/tensor.h"
#include "runtime/graph/fuse.h"
#include "runtime/graph/rewriter.h"

namespace runtime::graph {

namespace {

bool has_gradient_of_operand(const Node& node) {
  const int64_t function = integer_attribute(node, RT_ATTR_FUNCTION, 0);
  return node.op == RT_OP_ACTIVATION &&
         (function == RT_ACTIVATION_GELU || function == RT_ACTIVATION_GELU_TANH);
}

bool only_adds(const Node& node) {
  return std::all_of(node.post_ops.begin(), node.post_ops.end(), [](const PostOp& p) {
    return p.kind == RT_POST_BIAS || p.kind == RT_POST_RESIDUAL_ADD;
  });
}

// The bytes of a value in the memory that it shares with others.
struct ByteRange {
  ValueId storage;
  uint64_t begin, end;
  bool operator==(const ByteRange&) const = default;
  bool overlaps(const ByteRange& other) const {
    return storage == other.storage && begin < other.end && other.begin < end;
  }
};

ByteRange range_of(const Graph& graph, ValueId v) {
  const Place place = graph.place_of(v);
  return {place.storage, place.offset, place.offset + canonical_bytes(graph.value(v))};
}

// Whether `node` adds up the rows of the matrix that `a` is a view of: reduce sum over all axes but
// the last.
bool sums_rows_of(const Graph& graph, const Node& node, ValueId a) {
  if (node.op != RT_OP_REDUCE || integer_attribute(node, RT_ATTR_FUNCTION, 0) != RT_REDUCE_SUM)
    return false;
  const Dims& dims = graph.value(node.inputs[0]).dims;
  const int64_t all_but_last = (int64_t{1} << (dims.size() - 1)) - 1;
  return integer_attribute(node, RT_ATTR_AXES, 0) == all_but_last &&
         dims.back() == graph.value(a).dims.back() &&
         range_of(graph, node.inputs[0]) == range_of(graph, a);
}

// One sweep over the graph. Nodes that it merges with others are marked and removed at its end.
class ProductSweep {
 public:
  ProductSweep(Graph& graph, Target& target)
      : graph_(graph), target_(target), dead_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (ValueId v : graph.nodes[i].inputs) readers_[graph.storage(v)].push_back(i);
    }
  }
  ~ProductSweep() { remove_marked(graph_.nodes, dead_); }
  ProductSweep(const ProductSweep&) = delete;
  ProductSweep& operator=(const ProductSweep&) = delete;

  // Calls (this->*rule)(i) for each product i that is left.
  void apply(void (ProductSweep::*rule)(size_t)) {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!dead_[i] && graph_.nodes[i].op == RT_OP_MATMUL) (this->*rule)(i);
    }
  }

  // Products of matrices in 16 bits whose result is only converted to float32, as gradients of
  // parameters are, write it in float32.
  void widen_result(size_t at) {
    const Node& node = graph_.nodes[at];
    const rt_dtype type = graph_.value(node.outputs[0]).dtype;
    if (!rt::sdk::is_sixteen_bit(type) || !node.post_ops.empty() || node.outputs.size() > 1) return;
    const std::optional<size_t> cast = cast_behind(node);
    if (!cast) return;
    Node fused = node;
    fused.outputs = graph_.nodes[*cast].outputs;
    if (!is_native(fused)) return;
    dead_[at] = true;
    graph_.nodes[*cast] = std::move(fused);
  }

  // The gradient of a weight is dy^T x, that of the bias the sum over the rows of dy. The product
  // computes both, in one type.
  void add_bias_gradient(size_t at) {
    const Node& node = graph_.nodes[at];
    const ValueId a = node.inputs[0];
    if (integer_attribute(node, RT_ATTR_TRANSPOSE_A, 0) == 0 || graph_.value(a).dims.size() != 2 ||
        !node.post_ops.empty() || node.outputs.size() > 1)
      return;
    for (size_t r : readers_[graph_.storage(a)]) {
      if (dead_[r] || !sums_rows_of(graph_, graph_.nodes[r], a)) continue;
      if (add_bias_gradient(at, r)) return;
    }
  }

  // The product writes y = gelu(v) together with v, which backward reads.
  void store_operand(size_t at) {
    const Node& node = graph_.nodes[at];
    const ValueId v = node.outputs[0];
    const std::vector<size_t>& readers = readers_[v];
    if (!is_plain_temporary(graph_.value(v)) || readers.size() < 2 || !only_adds(node)) return;
    const auto found = std::find_if(readers.begin(), readers.end(), [&](size_t r) {
      const Node& reader = graph_.nodes[r];
      return has_gradient_of_operand(reader) && reader.inputs[0] == v &&
             reader.phase == node.phase && graph_.value(reader.outputs[0]).base == kNone;
    });
    if (found == readers.end()) return;
    const Node& activation = graph_.nodes[*found];
    Node fused = node;
    fused.post_ops.push_back({RT_POST_STORE, 0, -1});
    fused.post_ops.push_back(
        {RT_POST_ACTIVATION,
         static_cast<int32_t>(integer_attribute(activation, RT_ATTR_FUNCTION, 0)), -1});
    fused.outputs[0] = activation.outputs[0];
    fused.outputs.push_back(v);
    if (!is_native(fused)) return;
    dead_[*found] = true;
    graph_.nodes[at] = std::move(fused);
  }

 private:
  // Whether the target runs the node with all its post-operations, and not slowly.
  bool is_native(const Node& node) {
    const Support support = target_.support(graph_, node);
    return support.supported && !support.emulated && support.post_ops_fused >= node.post_ops.size();
  }

  // The only reader of the first output of `node`, if it is a cast to float32.
  std::optional<size_t> cast_behind(const Node& node) {
    const ValueId v = node.outputs[0];
    const std::vector<size_t>& readers = readers_[v];
    if (!is_plain_temporary(graph_.value(v)) || readers.size() != 1) return std::nullopt;
    const Node& cast = graph_.nodes[readers[0]];
    const bool fits = cast.op == RT_OP_CAST && cast.inputs[0] == v && cast.phase == node.phase &&
                      graph_.value(cast.outputs[0]).dtype == RT_FLOAT32;
    return fits ? std::optional(readers[0]) : std::nullopt;
  }

  // Makes the result of node `sum`, or that of the cast to the product's type behind it, the second
  // output of product `at`.
  bool add_bias_gradient(size_t at, size_t sum) {
    std::vector<size_t> merged = {at, sum};
    ValueId d = graph_.nodes[sum].outputs[0];
    if (graph_.value(d).dtype != graph_.value(graph_.nodes[at].outputs[0]).dtype) {
      const std::optional<size_t> cast = cast_behind(graph_.nodes[sum]);
      if (!cast) return false;
      d = graph_.nodes[*cast].outputs[0];
      merged.push_back(*cast);
    }
    Node fused = graph_.nodes[at];
    fused.outputs.push_back(d);
    const bool fits = graph_.value(d).dtype == graph_.value(fused.outputs[0]).dtype &&
                      graph_.value(d).dims == Dims{graph_.value(fused.inputs[0]).dims[1]};
    if (!fits || !can_merge(fused, merged) || !is_native(fused)) return false;
    for (size_t i : merged) dead_[i] = true;
    const size_t first = *std::min_element(merged.begin(), merged.end());
    dead_[first] = false;
    graph_.nodes[first] = std::move(fused);
    return true;
  }

  // Whether `node` may take the place of the first of the `merged` nodes: until the last one of
  // them no other node writes what it reads, or touches what it writes.
  bool can_merge(const Node& node, const std::vector<size_t>& merged) const {
    const auto [first, last] = std::minmax_element(merged.begin(), merged.end());
    const auto meet = [&](const std::vector<ValueId>& some, const std::vector<ValueId>& others) {
      return std::any_of(some.begin(), some.end(), [&](ValueId v) {
        return std::any_of(others.begin(), others.end(), [&](ValueId w) {
          return v != kNone && w != kNone && range_of(graph_, v).overlaps(range_of(graph_, w));
        });
      });
    };
    for (size_t i = *first; i <= *last; ++i) {
      if (dead_[i] || std::count(merged.begin(), merged.end(), i) > 0) continue;
      const Node& other = graph_.nodes[i];
      if (meet(other.outputs, node.inputs) || meet(other.outputs, node.outputs) ||
          meet(other.inputs, node.outputs))
        return false;
    }
    return true;
  }

  Graph& graph_;
  Target& target_;
  std::vector<char> dead_;
  std::unordered_map<ValueId, std::vector<size_t>> readers_;  // by storage
};

}  // namespace

void fuse_products(Graph& graph, Target& target) {
  for (const auto rule : {&ProductSweep::widen_result, &ProductSweep::add_bias_gradient,
                          &ProductSweep::store_operand})
    ProductSweep(graph, target).apply(rule);
}

}  // namespace runtime::graph
