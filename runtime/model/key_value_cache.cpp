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
        for (const std::vector<Layer>* inside : lists_of(layer)) {
          if (!all(*inside)) return false;
        }
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
        std::is_same_v<Kind, Rotary> || std::is_same_v<Kind, Residual> ||
        std::is_same_v<Kind, Join> || std::is_same_v<Kind, Gated>;
    return embedded_ && kEachTokenAlone;
  }
  bool fits(const Embedding&) { return !std::exchange(embedded_, true); }
  bool fits(const Attention& attention) { return embedded_ && attention.causal; }
  bool fits(const Block&) { return true; }

  bool embedded_ = false;  // before, a layer would see token ids as features
};

// Adds a tensor of the cache: part 1 (keys) or 2 (values) of a layer.
ValueId add_tensor(Build& build, KeyValueCache& cache, ValueKind kind, int64_t part,
                   const Dims& dims, rt_dtype dtype) {
  const std::string name = "cache." + build.layer + (part == 1 ? ".keys" : ".values");
  const char* const form = kind == ValueKind::kOutput ? ".window" : "";
  cache.tensors.push_back(build.graph().add_value(name + form, kind, dims, dtype));
  return cache.tensors.back();
}

// Copies part 1 or 2 of qkv, [n, 3C], to a value [n, C].
void write_part(Build& build, ValueId qkv, int64_t part, ValueId to) {
  const int64_t start = part * build.graph().value(to).dims[1];
  build.node_into(RT_OP_SLICE, {qkv}, {to}, {{RT_ATTR_AXIS, int64_t{1}}, {RT_ATTR_START, start}});
}

// Adds the keys or values that a token of qkv, [1, 3C], attends to; it writes its own to row 0.
ValueId rows_with(Build& build, KeyValueCache& cache, int64_t part, ValueId qkv, int64_t tokens) {
  Graph& graph = build.graph();
  Value own;
  own.dtype = graph.value(qkv).dtype;
  own.dims = {1, graph.value(qkv).dims[1] / 3};
  own.base =
      add_tensor(build, cache, ValueKind::kState, part, {tokens + 1, own.dims[1]}, own.dtype);
  const ValueId tensor = own.base;
  write_part(build, qkv, part, graph.add_value(std::move(own)));
  return tensor;
}

}  // namespace

bool can_extend(const Model& model) {
  return model.input.size() == 1 && TokenWise().all(model.layers);
}

void fill_cache(Build& build, KeyValueCache& cache, ValueId qkv) {
  Graph& graph = build.graph();
  const Dims dims = graph.value(qkv).dims;
  const ValueId rows = graph.reshape(qkv, {dims[1], dims[2]});
  for (const int64_t part : {1, 2}) {
    write_part(build, rows, part,
               add_tensor(build, cache, ValueKind::kOutput, part, {dims[1], dims[2] / 3},
                          graph.value(qkv).dtype));
  }
}

// The cache has the features of all heads side by side, and so does the query. To score a key for
// each head with one product, the query becomes a matrix of a row for each head, with zeros in the
// features of other heads; of the product with the values each head takes its own features.
ValueId extend_attention(Build& build, KeyValueCache& cache, ValueId qkv, int64_t heads,
                         int64_t tokens) {
  Graph& graph = build.graph();
  const int64_t c = graph.value(qkv).dims[2] / 3, d = c / heads;
  if (cache.mask == graph::kNone) {
    cache.mask =
        graph.add_value("mask", ValueKind::kInput, {1, tokens + 1}, graph.value(qkv).dtype);
  }
  const ValueId row = graph.reshape(qkv, {1, 3 * c});
  const ValueId keys = rows_with(build, cache, 1, row, tokens);
  const ValueId values = rows_with(build, cache, 2, row, tokens);
  // query[h, g, i] = q[g, i] where h = g, else 0
  const ValueId query =
      graph::copy_elements(build, graph.reshape(qkv, {1, 3, heads, d}), {heads, heads, d},
                           {{0, {1, -1, 0}}, {0, {0, 0, 0}}, {0, {0, 1, 0}}, {0, {0, 0, 1}}});
  ValueId scores = build.matmul(graph.reshape(query, {heads, c}), keys, false, true);
  scores = build.scale(scores, 1 / std::sqrt(static_cast<double>(d)));
  const ValueId weights = build.softmax(build.add(scores, cache.mask));
  const ValueId sums = graph.reshape(build.matmul(weights, values), {heads, heads, d});
  const ValueId own =
      graph::copy_elements(build, sums, {heads, d}, {{0, {1, 0}}, {0, {1, 0}}, {0, {0, 1}}});
  return graph.reshape(own, {1, 1, c});
}

}  // namespace runtime::model
