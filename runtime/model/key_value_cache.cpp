// Says which models can write a text token by token, and adds cached keys and values to their
// graphs.
#include "runtime/model/key_value_cache.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "runtime/graph/element_copies.h"

namespace runtime::model {

namespace {

using graph::Build;
using graph::Dims;
using graph::Graph;
using graph::Value;
using graph::ValueId;
using graph::ValueKind;

// Follows the layers in order, from token ids to the output.
class TokenWise {
 public:
  bool all(const std::vector<Layer>& layers) {
    return std::all_of(layers.begin(), layers.end(), [&](const Layer& layer) {
      // A second copy of a layer finds what a third one finds.
      for (int64_t i = 0; i < std::min<int64_t>(layer.repeat, 2); ++i) {
        if (!std::visit([&](const auto& kind) { return fits(kind); }, layer.kind)) return false;
        const bool outer = in_head_;
        in_head_ |= std::holds_alternative<AuxiliaryHead>(layer.kind);
        for (const std::vector<Layer>* inside : lists_of(layer)) {
          if (!all(*inside)) return false;
        }
        in_head_ = outer;
      }
      return true;
    });
  }

 private:
  template <class Kind>
  bool fits(const Kind&) {
    constexpr bool kEachTokenAlone =
        std::is_same_v<Kind, Linear> || std::is_same_v<Kind, Activation> ||
        std::is_same_v<Kind, Softmax> || std::is_same_v<Kind, Dropout> ||
        std::is_same_v<Kind, BatchNorm> || std::is_same_v<Kind, LayerNorm> ||
        std::is_same_v<Kind, RmsNorm> || std::is_same_v<Kind, PositionEmbedding> ||
        std::is_same_v<Kind, SinusoidalPosition> || std::is_same_v<Kind, Rotary> ||
        std::is_same_v<Kind, Residual> || std::is_same_v<Kind, Join> ||
        std::is_same_v<Kind, Gated> || std::is_same_v<Kind, AuxiliaryHead>;
    return embedded_ && kEachTokenAlone;
  }
  bool fits(const Embedding&) { return !std::exchange(embedded_, true); }
  bool fits(const Attention& attention) {
    return embedded_ && attention.options.causal && !in_head_;
  }
  // In a head, whose result nothing reads, what has no weights for each token.
  bool fits(const GlobalAvgPool& pool) { return in_head_ && pool.documents.empty(); }
  bool fits(const FirstToken&) { return in_head_; }
  bool fits(const Block&) { return true; }

  bool embedded_ = false;  // before, a layer would see token ids as features
  bool in_head_ = false;   // of auxiliary heads
};

// Adds a tensor of the cache of the current layer; `what` is "keys" or "values".
ValueId add_tensor(Build& build, KeyValueCache& cache, ValueKind kind, const std::string& what,
                   const Dims& dims, rt_dtype dtype) {
  const char* const form = kind == ValueKind::kOutput ? ".window" : "";
  cache.tensors.push_back(
      build.graph().add_value("cache." + build.layer + "." + what + form, kind, dims, dtype));
  return cache.tensors.back();
}

// Copies the columns to a value of so many rows and columns.
void write_columns(Build& build, const Columns& columns, ValueId to) {
  Graph& graph = build.graph();
  const Dims dims = graph.value(columns.value).dims;
  const ValueId rows = graph.reshape(columns.value, {dims[1], dims[2]});
  if (columns.count == dims[2]) return build.node_into(RT_OP_COPY, {rows}, {to});
  build.node_into(RT_OP_SLICE, {rows}, {to},
                  {{RT_ATTR_AXIS, int64_t{1}}, {RT_ATTR_START, columns.begin}});
}

// Adds the keys or values that a token attends to; it writes its own to row 0.
ValueId rows_with(Build& build, KeyValueCache& cache, const std::string& what,
                  const Columns& columns, int64_t tokens) {
  Graph& graph = build.graph();
  Value own;
  own.dtype = graph.value(columns.value).dtype;
  own.dims = {1, columns.count};
  own.base =
      add_tensor(build, cache, ValueKind::kState, what, {tokens + 1, columns.count}, own.dtype);
  const ValueId tensor = own.base;
  write_columns(build, columns, graph.add_value(std::move(own)));
  return tensor;
}

ValueId mask_of(Graph& graph, KeyValueCache& cache, int64_t window, int64_t tokens,
                rt_dtype dtype) {
  for (const KeyValueCache::Mask& mask : cache.masks) {
    if (mask.window == window) return mask.value;
  }
  const std::string name = window == 0 ? "mask" : "mask." + std::to_string(window);
  cache.masks.push_back({window, graph.add_value(name, ValueKind::kInput, {1, tokens + 1}, dtype)});
  return cache.masks.back().value;
}

}  // namespace

bool can_extend(const Model& model) {
  return model.input.size() == 1 && TokenWise().all(model.layers);
}

void fill_cache(Build& build, KeyValueCache& cache, const AttentionSource& source) {
  const auto fill = [&](const char* what, const Columns& columns) {
    const Value& from = build.graph().value(columns.value);
    const Dims dims = {from.dims[1], columns.count};
    write_columns(build, columns,
                  add_tensor(build, cache, ValueKind::kOutput, what, dims, from.dtype));
  };
  fill("keys", source.keys);
  fill("values", source.values);
}

// The cache has the features of all heads of keys side by side. To score a key for each head with
// one product, the query becomes a matrix of a row for each head, with zeros in the features of
// other heads of keys; of the product with the values each head takes its own features. Heads that
// share a head of keys are neighbours: head h has number h % shared among those of keys h / shared.
ValueId extend_attention(Build& build, KeyValueCache& cache, const AttentionSource& source,
                         int64_t tokens) {
  Graph& graph = build.graph();
  const Columns& q = source.queries;
  const int64_t groups = source.key_heads, shared = source.heads / groups;
  const int64_t d = q.count / source.heads, e = source.values.count / groups;
  const rt_dtype dtype = graph.value(q.value).dtype;
  const ValueId mask = mask_of(graph, cache, source.window, tokens, dtype);
  const ValueId keys = rows_with(build, cache, "keys", source.keys, tokens);
  const ValueId values = rows_with(build, cache, "values", source.values, tokens);
  // query[g, s, h, i] = q[g, s, i] where h = g, else 0
  const ValueId query = graph::copy_elements(
      build, q.value, {groups, shared, groups, d},
      {{0, {1, 0, -1, 0}}, {0, {0, 0, 0, 0}}, {q.begin, {shared * d, d, 0, 1}}});
  ValueId scores =
      build.matmul(graph.reshape(query, {source.heads, groups * d}), keys, false, true);
  const double scale = source.scale != 0 ? source.scale : 1 / std::sqrt(static_cast<double>(d));
  const ValueId weights = build.softmax(build.add(build.scale(scores, scale), mask));
  const ValueId sums = graph.reshape(build.matmul(weights, values), {groups, shared, groups, e});
  const ValueId own =
      graph::copy_elements(build, sums, {groups, shared, e},
                           {{0, {1, 0, 0}}, {0, {0, 1, 0}}, {0, {1, 0, 0}}, {0, {0, 0, 1}}});
  return graph.reshape(own, {1, 1, source.heads * e});
}

}  // namespace runtime::model
