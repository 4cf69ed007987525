// Follows the readers of a value up to the next product or the loss.
#include "runtime/parallel/lookahead.h"

#include <algorithm>
#include <numeric>

namespace runtime::parallel {

using graph::Node;
using graph::ValueId;

namespace {

bool is_one_of(const std::string& op, std::initializer_list<const char*> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* o) { return op == o; });
}

}  // namespace

std::string hint_of(const Hints& hints, const std::string& layer) {
  const auto it = hints.find(layer);
  return it == hints.end() ? "auto" : it->second;
}

bool is_product(const Node& node, const std::set<ValueId>& parameters) {
  return (node.op == RT_OP_CONV2D || node.op == RT_OP_MATMUL) &&
         parameters.contains(node.inputs[1]) &&
         graph::integer_attribute(node, RT_ATTR_TRANSPOSE_A, 0) == 0;
}

bool is_by_channel(const std::string& op) {
  return is_one_of(op, {RT_OP_ACTIVATION, RT_OP_SCALE, RT_OP_CAST, RT_OP_COPY, RT_OP_DROPOUT,
                        RT_OP_MAX_POOL2D, RT_OP_AVG_POOL2D, RT_OP_GLOBAL_AVG_POOL});
}

bool is_arithmetic(const std::string& op) {
  return is_one_of(op, {RT_OP_ADD, RT_OP_SUBTRACT, RT_OP_MULTIPLY, RT_OP_DIVIDE});
}

bool is_batch_norm(const std::string& op) {
  return is_one_of(op, {RT_OP_BATCH_NORM, RT_OP_BATCH_NORM_INFERENCE, RT_OP_BATCH_NORM_STATISTICS,
                        RT_OP_BATCH_NORM_MERGE, RT_OP_BATCH_NORM_APPLY});
}

Lookahead::Lookahead(const graph::Graph& graph, const std::vector<Node>& nodes,
                     const std::set<ValueId>& parameters, const Hints& hints, int ranks)
    : nodes_(nodes), parameters_(parameters), hints_(hints), ranks_(ranks) {
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
  if (reader.op == RT_OP_CORRECT_COUNT || reader.op == RT_OP_BATCH_NORM_STATISTICS) return true;
  if (reader.op == RT_OP_CROSS_ENTROPY) return reads(0);
  if (is_arithmetic(reader.op))
    return parameters_.contains(reader.inputs[reads(0) ? 1 : 0]) && passes(reader, demand);
  if (!reads(0)) return false;
  if (is_by_channel(reader.op) || is_batch_norm(reader.op)) return passes(reader, demand);
  if (is_product(reader, parameters_)) return accepts_product(reader, demand);
  if (reader.op != RT_OP_ATTENTION || hint_of(hints_, reader.layer) == "none") return false;
  const int64_t heads = graph::integer_attribute(reader, RT_ATTR_HEADS, 1);
  Demand behind;
  demand = {3, dims_[reader.outputs[0]].back() / heads};
  return heads >= ranks_ && passes(reader, behind);
}

bool Lookahead::passes(const Node& reader, Demand& demand) const {
  const std::optional<Demand> next = this->demand(reader.outputs[0]);
  if (!next) return false;
  demand = {std::max(demand.blocks, next->blocks), std::lcm(demand.unit, next->unit)};
  return true;
}

bool Lookahead::accepts_product(const Node& reader, Demand& demand) const {
  const std::string hint = hint_of(hints_, reader.layer);
  if (hint == "none" || hint == "column") return false;
  const int64_t groups = graph::integer_attribute(reader, RT_ATTR_GROUPS, 1);
  if (groups == 1) return true;
  Demand behind;
  demand.unit = std::lcm(demand.unit, dims_[reader.inputs[0]].back() / groups);
  return groups >= ranks_ && passes(reader, behind);
}

}  // namespace runtime::parallel
