// Follows the readers of a value up to the next product or the loss.
#include "runtime/parallel/lookahead.h"

#include <algorithm>
#include <numeric>

#include "runtime/graph/operation_set.h"
#include "runtime/row_of.h"

namespace runtime::parallel {

using graph::Node;
using graph::SplitRule;
using graph::ValueId;

const Hint& hint_of(const Hints& hints, const std::string& layer) {
  static constexpr Hint kHints[] = {{.name = "auto", .columns = true, .rows = true, .asked = false},
                                    {.name = "none", .columns = false, .rows = false},
                                    {.name = "column", .columns = true, .rows = false},
                                    {.name = "row", .columns = false, .rows = true}};
  const auto found = hints.find(layer);
  return found == hints.end() ? kHints[0] : find_row("shard", found->second, kHints);
}

bool has_weights(const Node& node, const std::set<ValueId>& parameters) {
  return parameters.contains(node.inputs[1]) &&
         graph::integer_attribute(node, RT_ATTR_TRANSPOSE_A, 0) == 0;
}

Lookahead::Lookahead(const graph::Graph& graph, const std::vector<Node>& nodes,
                     const std::set<ValueId>& parameters, const Hints& hints, int ranks)
    : graph_(graph), nodes_(nodes), parameters_(parameters), hints_(hints), ranks_(ranks) {
  for (size_t v = 0; v < graph.values.size(); ++v) {
    storage_.push_back(graph.storage(static_cast<ValueId>(v)));
    dims_.push_back(graph.values[v].dims);
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (ValueId v : nodes[i].inputs) readers_[storage_[v]].push_back(i);
  }
}

std::optional<Demand> Lookahead::demand(ValueId v) const {
  Demand demand;
  const auto readers = readers_.find(storage_[v]);
  if (readers == readers_.end()) return demand;
  for (size_t i : readers->second) {
    if (!accepts(nodes_[i], v, demand)) return std::nullopt;
  }
  return demand;
}

bool Lookahead::accepts(const Node& reader, ValueId v, Demand& demand) const {
  const auto reads = [&](size_t i) { return storage_[reader.inputs[i]] == storage_[v]; };
  switch (graph::operation_of(graph_, reader).forward.split) {
    case SplitRule::kWhole:
    case SplitRule::kTable:
    case SplitRule::kTerm:
      return false;
    case SplitRule::kMoments:
      return true;
    case SplitRule::kClasses:
      return reads(0);
    case SplitRule::kBroadcast:
      return parameters_.contains(reader.inputs[reads(0) ? 1 : 0]) && passes(reader, demand);
    case SplitRule::kPair:
      return passes(reader, demand);
    case SplitRule::kRows:
      return reads(0) && accepts_rows(reader, v, demand);
    case SplitRule::kElements:
    case SplitRule::kChannels:
    case SplitRule::kNormalised:
      return reads(0) && passes(reader, demand);
    case SplitRule::kWeights:
      return reads(0) && has_weights(reader, parameters_) && accepts_product(reader, demand);
    case SplitRule::kHeads:
      return reads(0) && accepts_attention(reader, demand);
    case SplitRule::kKeyHeads:
      return accepts_key_heads(reader, v, demand);
  }
  return false;
}

bool Lookahead::accepts_attention(const Node& reader, Demand& demand) const {
  if (!hint_of(hints_, reader.layer).cuts()) return false;
  const int64_t heads = graph::integer_attribute(reader, RT_ATTR_HEADS, 1);
  Demand behind;
  const int64_t width = dims_[reader.outputs[0]].back();
  if (heads < ranks_ || !passes(reader, behind)) return false;
  demand = {dims_[reader.inputs[0]].back() / width, width / heads};
  // What follows sees the operand's columns, if these are those of the result.
  if (demand.blocks == 1) demand = {behind.blocks, std::lcm(demand.unit, behind.unit)};
  return true;
}

bool Lookahead::accepts_rows(const Node& reader, ValueId v, Demand& demand) const {
  const int64_t width = dims_[reader.inputs[0]].back();
  if (width == dims_[v].back() || !passes(reader, demand)) return false;
  demand.unit = std::lcm(demand.unit, width);
  return true;
}

// As many heads of keys as ranks or more: each rank has some, and the heads of queries that read
// them. Else keys stay whole, and the queries of a rank read one head of them.
bool Lookahead::accepts_key_heads(const Node& reader, ValueId v, Demand& demand) const {
  if (!hint_of(hints_, reader.layer).cuts()) return false;
  const int64_t heads = graph::integer_attribute(reader, RT_ATTR_HEADS, 1),
                given = graph::integer_attribute(reader, RT_ATTR_KEY_HEADS, 0),
                shared = given > 0 ? given : heads;
  const bool apart = shared >= ranks_;
  if (!apart && (heads % ranks_ != 0 || ranks_ % shared != 0)) return false;
  demand.unit = 0;
  for (size_t i = 0; i < reader.inputs.size(); ++i) {
    if (storage_[reader.inputs[i]] != storage_[v]) continue;
    if (i > 2 || (i > 0 && !apart)) return false;
    const int64_t unit = dims_[reader.inputs[i]].back() / (i > 0 || apart ? shared : heads);
    demand.unit = std::lcm(std::max<int64_t>(demand.unit, 1), unit);
  }
  Demand behind;
  return demand.unit > 0 && passes(reader, behind);
}

bool Lookahead::passes(const Node& reader, Demand& demand) const {
  const std::optional<Demand> next = this->demand(reader.outputs[0]);
  if (!next) return false;
  demand = {std::max(demand.blocks, next->blocks), std::lcm(demand.unit, next->unit)};
  return true;
}

bool Lookahead::accepts_product(const Node& reader, Demand& demand) const {
  if (!hint_of(hints_, reader.layer).rows) return false;
  const int64_t groups = graph::integer_attribute(reader, RT_ATTR_GROUPS, 1);
  if (groups == 1) return true;
  Demand behind;
  demand.unit = std::lcm(demand.unit, dims_[reader.inputs[0]].back() / groups);
  return groups >= ranks_ && passes(reader, behind);
}

}  // namespace runtime::parallel
