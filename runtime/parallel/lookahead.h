// Looks ahead in a forward graph: whether it pays to split a value over the tensor axis.
#ifndef RUNTIME_PARALLEL_LOOKAHEAD_H_
#define RUNTIME_PARALLEL_LOOKAHEAD_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

// The `shard` key of each layer that has one.
using Hints = std::map<std::string, std::string>;
// A value of the key: how the weight of the layer may be cut, and whether the user asks for it.
struct Hint {
  std::string_view name;
  bool columns, rows;
  bool asked = true;
  bool cuts() const { return columns || rows; }
};
// The hint for a layer; "auto" if it has none. It lives as long as the program.
const Hint& hint_of(const Hints& hints, const std::string& layer);

// Whether a node that SplitRule::kWeights describes is a linear layer or a convolution: the other
// factor is a parameter.
bool has_weights(const graph::Node& node, const std::set<graph::ValueId>& parameters);

// How the readers of a value want it split. The fields have the meaning that they have in Split
// (split.h).
struct Demand {
  int64_t blocks = 1, unit = 1;
};

// Answers questions about a whole forward graph. All arguments must outlive this object, and
// `nodes` must not change.
class Lookahead {
 public:
  Lookahead(const graph::Graph& graph, const std::vector<graph::Node>& nodes,
            const std::set<graph::ValueId>& parameters, const Hints& hints, int ranks);

  // How to split `v`, or nullopt if a reader needs the whole value. correct_count is ignored, since
  // training steps do not have it.
  std::optional<Demand> demand(graph::ValueId v) const;

 private:
  bool accepts(const graph::Node& reader, graph::ValueId v, Demand& demand) const;
  bool passes(const graph::Node& reader, Demand& demand) const;
  bool accepts_rows(const graph::Node& reader, graph::ValueId v, Demand& demand) const;
  bool accepts_product(const graph::Node& reader, Demand& demand) const;
  bool accepts_attention(const graph::Node& reader, Demand& demand) const;
  bool accepts_key_heads(const graph::Node& reader, graph::ValueId v, Demand& demand) const;

  const graph::Graph& graph_;
  const std::vector<graph::Node>& nodes_;
  const std::set<graph::ValueId>& parameters_;
  const Hints& hints_;
  int ranks_;
  // `storage_` and `dims_` describe the graph before any value was split.
  std::vector<graph::ValueId> storage_;  // by value: the value that owns its memory
  std::vector<graph::Dims> dims_;
  // Indices of the nodes that read a value or a view of it, by the value that owns the memory.
  std::unordered_map<graph::ValueId, std::vector<size_t>> readers_;
};

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_LOOKAHEAD_H_
