// Values, views and types of a graph, and what nodes cost.
#include "runtime/graph/graph.h"

#include "runtime/error.h"

namespace runtime::graph {

int64_t element_count(const Dims& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  return count;
}

uint64_t canonical_bytes(const Value& value) {
  return static_cast<uint64_t>(element_count(value.dims)) * dtype_bytes(value.dtype);
}

bool is_plain_temporary(const Value& value) {
  return value.kind == ValueKind::kTemporary && value.base == kNone;
}

std::string to_string(const Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

ValueId Graph::add_value(Value value) {
  if (value.bytes == 0 && value.layout == RT_LAYOUT_CANONICAL) value.bytes = canonical_bytes(value);
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size()) - 1;
}

ValueId Graph::add_value(std::string name, ValueKind kind, Dims dims, rt_dtype dtype) {
  Value value;
  value.name = std::move(name);
  value.kind = kind;
  value.dims = std::move(dims);
  value.dtype = dtype;
  return add_value(std::move(value));
}

ValueId Graph::storage(ValueId id) const { return place_of(id).storage; }

Place Graph::place_of(ValueId id) const {
  Place place{id};
  for (; values[place.storage].base != kNone; place.storage = values[place.storage].base)
    place.offset += values[place.storage].offset;
  return place;
}

void Graph::retype(ValueId id, rt_dtype dtype) {
  value(id).dtype = dtype;
  value(id).bytes = canonical_bytes(value(id));
}

void Graph::resize(ValueId id, Dims dims) {
  value(id).dims = std::move(dims);
  value(id).bytes = canonical_bytes(value(id));
}

ValueId Graph::reshape(ValueId id, Dims dims) {
  const Value& from = value(id);
  if (from.dims == dims) return id;
  if (element_count(from.dims) != element_count(dims)) {
    throw InternalError("reshape of '" + from.name + "' from " + to_string(from.dims) + " to " +
                        to_string(dims) + ": the number of elements differs");
  }
  Value view;
  view.name = from.name;
  view.dtype = from.dtype;
  view.dims = std::move(dims);
  view.base = id;
  return add_value(std::move(view));
}

namespace {

const char* collective_name(int32_t kind) {
  switch (kind) {
    case RT_ALL_REDUCE:
      return "all_reduce";
    case RT_REDUCE_SCATTER:
      return "reduce_scatter";
    case RT_ALL_GATHER:
      return "all_gather";
    default:
      return "all_to_all";
  }
}

}  // namespace

CollectivePair make_collective(Graph& graph, int32_t kind, int32_t reduction, int32_t communicator,
                               ValueId send, ValueId receive) {
  Node n;
  n.op = collective_name(kind);
  n.inputs = {send};
  n.outputs = {receive};
  n.collective = {kind, reduction, communicator, false, graph.tokens++};
  CollectivePair pair{n, n};
  pair.wait.op = std::string("wait ").append(n.op);
  pair.wait.inputs = {send, receive};
  pair.wait.collective->wait = true;
  return pair;
}

const Attribute* find_attribute(const Node& node, std::string_view name) {
  for (const Attribute& a : node.attributes) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

int64_t integer_attribute(const Node& node, std::string_view name, int64_t fallback) {
  const Attribute* a = find_attribute(node, name);
  return a && std::holds_alternative<int64_t>(a->value) ? std::get<int64_t>(a->value) : fallback;
}

double number_attribute(const Node& node, std::string_view name, double fallback) {
  const Attribute* a = find_attribute(node, name);
  return a && std::holds_alternative<double>(a->value) ? std::get<double>(a->value) : fallback;
}

}  // namespace runtime::graph
