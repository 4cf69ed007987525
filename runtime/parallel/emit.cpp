#include "runtime/parallel/emit.h"

#include <algorithm>

#include "runtime/parallel/mesh.h"

namespace runtime::parallel {

using graph::Dims;
using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;

ValueId Emit::view(ValueId base, uint64_t offset, int64_t count) {
  return view(base, offset, Dims{count});
}

ValueId Emit::view(ValueId base, uint64_t offset, Dims dims) {
  Value v;
  v.dtype = graph_.value(base).dtype;
  v.dims = std::move(dims);
  v.base = base;
  v.offset = offset;
  return graph_.add_value(std::move(v));
}

ValueId Emit::value(const std::string& name, graph::ValueKind kind, ValueId like, Dims dims) {
  Value v;
  v.name = name;
  v.kind = kind;
  v.dtype = graph_.value(like).dtype;
  v.dims = std::move(dims);
  return graph_.add_value(std::move(v));
}

Node Emit::node(const char* op, const std::string& layer, Phase phase, std::vector<ValueId> inputs,
                std::vector<ValueId> outputs) const {
  Node n;
  n.op = op;
  n.layer = layer;
  n.phase = phase;
  n.inputs = std::move(inputs);
  n.outputs = std::move(outputs);
  return n;
}

Node Emit::add(ValueId a, ValueId b, ValueId out, const std::string& layer) const {
  return node(RT_OP_ADD, layer, Phase::kBackward, {a, b}, {out});
}

Node Emit::copy(ValueId from, ValueId to, const std::string& layer) const {
  return node(RT_OP_COPY, layer, Phase::kBackward, {from}, {to});
}

ValueId Emit::concat(std::vector<ValueId> values, const std::string& layer, NodeList& out) {
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

Emit::Pair Emit::collective(int32_t kind, int32_t reduction, ValueId send, ValueId receive,
                            int communicator, const std::string& layer) {
  Pair pair = graph::make_collective(graph_, kind, reduction, communicator, send, receive);
  for (Node* n : {&pair.start, &pair.wait}) {
    n->layer = layer;
    n->phase = Phase::kBackward;
  }
  return pair;
}

Emit::Pair Emit::transfer(int32_t kind, ValueId value, int peer, const std::string& layer) {
  Pair pair = collective(kind, 0, value, value, kPipelineCommunicator, layer);
  const char* const name = kind == RT_SEND ? "send" : kind == RT_RECEIVE ? "receive" : "broadcast";
  pair.start.op = name;
  pair.wait.op = std::string("wait ").append(name);
  pair.wait.inputs = {value};
  pair.start.collective->peer = pair.wait.collective->peer = peer;
  if (kind == RT_SEND) pair.start.outputs = pair.wait.outputs = {};
  if (kind == RT_RECEIVE) pair.start.inputs = {};
  return pair;
}

}  // namespace runtime::parallel
