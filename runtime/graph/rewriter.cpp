// Makes values, views, nodes and pairs of collectives, and inserts them at their places.
#include "runtime/graph/rewriter.h"

#include <algorithm>
#include <iterator>

namespace runtime::graph {

void append(NodeList& to, NodeList& from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
  from.clear();
}

void remove_marked(NodeList& nodes, const std::vector<char>& dead) {
  NodeList kept;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!dead[i]) kept.push_back(std::move(nodes[i]));
  }
  nodes = std::move(kept);
}

ValueId Rewriter::view(ValueId base, uint64_t offset, int64_t count) {
  return view(base, offset, Dims{count});
}

ValueId Rewriter::view(ValueId base, uint64_t offset, Dims dims) {
  Value v;
  v.dtype = graph_.value(base).dtype;
  v.dims = std::move(dims);
  v.base = base;
  v.offset = offset;
  return graph_.add_value(std::move(v));
}

ValueId Rewriter::value(const std::string& name, ValueKind kind, ValueId like, Dims dims) {
  return graph_.add_value(name, kind, std::move(dims), graph_.value(like).dtype);
}

ValueId Rewriter::temporary(ValueId like) {
  Value v = graph_.value(like);
  v.kind = ValueKind::kTemporary;
  v.base = kNone;
  v.offset = 0;
  return graph_.add_value(std::move(v));
}

Node Rewriter::node(const std::string& op, const std::string& layer, Phase phase,
                    std::vector<ValueId> inputs, std::vector<ValueId> outputs) const {
  Node n;
  n.op = op;
  n.layer = layer;
  n.phase = phase;
  n.inputs = std::move(inputs);
  n.outputs = std::move(outputs);
  return n;
}

Node Rewriter::node(const std::string& op, const Node& beside, std::vector<ValueId> inputs,
                    std::vector<ValueId> outputs) const {
  Node n = node(op, beside.layer, beside.phase, std::move(inputs), std::move(outputs));
  n.origin = beside.origin;
  return n;
}

Node Rewriter::add(ValueId a, ValueId b, ValueId out, const std::string& layer) const {
  return node(RT_OP_ADD, layer, Phase::kBackward, {a, b}, {out});
}

Node Rewriter::copy(ValueId from, ValueId to, const std::string& layer) const {
  return node(RT_OP_COPY, layer, Phase::kBackward, {from}, {to});
}

ValueId Rewriter::concat(std::vector<ValueId> values, const std::string& layer, NodeList& out) {
  while (values.size() > 1) {
    std::vector<ValueId> next;
    for (size_t i = 0; i < values.size(); i += RT_MAX_INPUTS) {
      const auto end = values.begin() + std::min(i + RT_MAX_INPUTS, values.size());
      const std::vector<ValueId> group(values.begin() + i, end);
      Dims dims = graph_.value(group[0]).dims;
      dims[0] = 0;
      for (ValueId v : group) dims[0] += graph_.value(v).dims[0];
      next.push_back(temporary(group[0], std::move(dims)));
      Node n = node(RT_OP_CONCAT, layer, Phase::kBackward, group, {next.back()});
      n.attributes = {{RT_ATTR_AXIS, int64_t{0}}};
      out.push_back(std::move(n));
    }
    values = std::move(next);
  }
  return values[0];
}

CollectivePair Rewriter::collective(int32_t kind, int32_t reduction, ValueId send, ValueId receive,
                                    int communicator, const std::string& layer) {
  CollectivePair pair = make_collective(graph_, kind, reduction, communicator, send, receive);
  for (Node* n : {&pair.start, &pair.wait}) {
    n->layer = layer;
    n->phase = Phase::kBackward;
  }
  return pair;
}

CollectivePair Rewriter::transfer(int32_t kind, ValueId value, int peer, int communicator,
                                  const std::string& layer) {
  CollectivePair pair = collective(kind, 0, value, value, communicator, layer);
  const char* const name = kind == RT_SEND ? "send" : kind == RT_RECEIVE ? "receive" : "broadcast";
  pair.start.op = name;
  pair.wait.op = std::string("wait ").append(name);
  pair.wait.inputs = {value};
  pair.start.collective->peer = pair.wait.collective->peer = peer;
  if (kind == RT_SEND) pair.start.outputs = pair.wait.outputs = {};
  if (kind == RT_RECEIVE) pair.start.inputs = {};
  return pair;
}

NodeList take_updates(NodeList& nodes) {
  const auto first = std::stable_partition(nodes.begin(), nodes.end(),
                                           [](const Node& n) { return n.phase != Phase::kUpdate; });
  NodeList updates(std::make_move_iterator(first), std::make_move_iterator(nodes.end()));
  nodes.erase(first, nodes.end());
  return updates;
}

NodeList Insertions::applied_to(NodeList nodes) {
  NodeList result;
  for (size_t i = 0; i < nodes.size(); ++i) {
    result.push_back(std::move(nodes[i]));
    append(result, after_.at(i));
  }
  return result;
}

int32_t NodeCopies::token(int32_t original) {
  const auto [token, is_new] = tokens_.try_emplace(original, graph_.tokens);
  graph_.tokens += is_new;
  return token->second;
}

}  // namespace runtime::graph
