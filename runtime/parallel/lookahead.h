// Looks ahead in a forward graph: whether it pays to split a value over the tensor axis.
#ifndef RUNTIME_PARALLEL_LOOKAHEAD_H_
#define RUNTIME_PARALLEL_LOOKAHEAD_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

// The `shard` key of each layer that has one.
using Hints = std::map<std::string, std::string>;
// The hint for a layer; "auto" if it has none.
std::string hint_of(const Hints& hints, const std::string& layer);

// Whether the node multiplies a value with a parameter: a linear layer or a convolution.
bool is_product(const graph::Node& node, const std::set<graph::ValueId>& parameters);
// Whether each result element depends on one element, or on a window of one channel, of input 0.
bool is_by_channel(const std::string& op);
// Whether `op` adds, subtracts, multiplies or divides two operands element by element.
bool is_arithmetic(const std::string& op);
// Whether `op` is one of the operations of batch normalisation.
bool is_batch_norm(const std::string& op);

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
  bool accepts_product(const graph::Node& reader, Demand& demand) const;

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
