#include "runtime/graph/graph.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/graph/update_operations.h"

namespace runtime::graph {

int64_t element_count(const Dims& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  return count;
}

uint64_t dtype_bytes(rt_dtype dtype) {
  switch (dtype) {
    case RT_FLOAT64:
    case RT_INT64:
      return 8;
    case RT_FLOAT32:
    case RT_INT32:
      return 4;
    case RT_FLOAT16:
    case RT_BFLOAT16:
      return 2;
    default:
      return 1;
  }
}

uint64_t canonical_bytes(const Value& value) {
  return static_cast<uint64_t>(element_count(value.dims)) * dtype_bytes(value.dtype);
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

ValueId Graph::storage(ValueId id) const {
  while (values[id].base != kNone) id = values[id].base;
  return id;
}

void Graph::retype(ValueId id, rt_dtype dtype) {
  value(id).dtype = dtype;
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

bool is_optimizer(std::string_view op) {
  return op == RT_OP_SGD || op == RT_OP_ADAMW || op == kSgdDampened ||
         (is_open(op) && op.ends_with(kOpenUpdate));
}

bool is_elementwise_update(std::string_view op) {
  return is_optimizer(op) || op == kAddWeightDecay || op == kClipValue || op == kMovingAverage;
}

int64_t integer_attribute(const Node& node, std::string_view name, int64_t fallback) {
  const Attribute* a = find_attribute(node, name);
  return a && std::holds_alternative<int64_t>(a->value) ? std::get<int64_t>(a->value) : fallback;
}

double number_attribute(const Node& node, std::string_view name, double fallback) {
  const Attribute* a = find_attribute(node, name);
  return a && std::holds_alternative<double>(a->value) ? std::get<double>(a->value) : fallback;
}

namespace {

bool moves_data_only(const Node& node) {
  static constexpr const char* kOps[] = {RT_OP_COPY,  RT_OP_FILL, RT_OP_TRANSPOSE, RT_OP_CONCAT,
                                         RT_OP_SLICE, RT_OP_PAD,  RT_OP_EMBEDDING, RT_OP_CAST};
  return std::any_of(std::begin(kOps), std::end(kOps),
                     [&](const char* op) { return node.op == op; });
}

// The multiply-adds of a convolution of x [N,H,W,C] with w [O,KH,KW,C/G]: one filter for each
// element of its result, whose dims no operand of the node has.
double convolution_products(const Node& node, const Dims& x, const Dims& w) {
  const auto value = [&](const char* name, int64_t fallback) {
    return integer_attribute(node, name, fallback);
  };
  const auto size = [](int64_t padded, int64_t extent, int64_t stride) {
    return (padded - extent) / stride + 1;
  };
  const int64_t rows =
      size(x[1] + value(RT_ATTR_PAD_TOP, 0) + value(RT_ATTR_PAD_BOTTOM, 0),
           value(RT_ATTR_DILATION_H, 1) * (w[1] - 1) + 1, value(RT_ATTR_STRIDE_H, 1));
  const int64_t columns =
      size(x[2] + value(RT_ATTR_PAD_LEFT, 0) + value(RT_ATTR_PAD_RIGHT, 0),
           value(RT_ATTR_DILATION_W, 1) * (w[2] - 1) + 1, value(RT_ATTR_STRIDE_W, 1));
  return static_cast<double>(x[0] * rows * columns) * static_cast<double>(element_count(w));
}

}  // namespace

double flops(const Graph& graph, const Node& node) {
  const auto dims = [&](ValueId id) -> const Dims& { return graph.value(id).dims; };
  const auto count = [&](ValueId id) { return static_cast<double>(element_count(dims(id))); };
  if (node.op == RT_OP_MATMUL) {
    const Dims& a = dims(node.inputs[0]);
    const int64_t k = integer_attribute(node, RT_ATTR_TRANSPOSE_A, 0) ? a[a.size() - 2] : a.back();
    return 2.0 * count(node.outputs[0]) * static_cast<double>(k);
  }
  // Each output (or dy) element meets one filter: KH KW C/G multiply-adds.
  const auto filter = [&](ValueId w) { return count(w) / static_cast<double>(dims(w)[0]); };
  if (node.op == RT_OP_CONV2D) return 2.0 * count(node.outputs[0]) * filter(node.inputs[1]);
  if (node.op == RT_OP_CONV2D_BACKWARD_DATA)
    return 2.0 * count(node.inputs[0]) * filter(node.inputs[1]);
  if (node.op == RT_OP_CONV2D_BACKWARD_WEIGHTS)
    return 2.0 * count(node.inputs[1]) * filter(node.outputs[0]);
  if (node.op == RT_OP_CONV2D_POOL2D)
    return 2.0 * convolution_products(node, dims(node.inputs[0]), dims(node.inputs[1]));
  if (node.op == RT_OP_CONV2D_POOL2D_BACKWARD_WEIGHTS)
    return 2.0 * convolution_products(node, dims(node.inputs[0]), dims(node.outputs[0]));
  // Per head and sample, forward has two products of T x D with D x T and backward has five, one of
  // which recomputes the scores. With a causal mask a row sees (T+1)/2 keys on average.
  if (node.op == RT_OP_ATTENTION || node.op == RT_OP_ATTENTION_BACKWARD) {
    const Dims& qkv = dims(node.inputs[node.op == RT_OP_ATTENTION ? 0 : 1]);
    const auto keys = static_cast<double>(qkv[1]);
    const double seen = integer_attribute(node, RT_ATTR_CAUSAL, 0) ? (keys + 1) / 2 : keys;
    const double products = node.op == RT_OP_ATTENTION ? 2 : 5;
    return products * 2.0 * static_cast<double>(element_count(qkv)) / 3 * seen;
  }
  if (node.collective || moves_data_only(node) || node.outputs.empty()) return 0;
  return count(node.outputs[0]);
}

double step_flops(const Graph& graph, int64_t passes) {
  double sum = 0;
  for (const Node& node : graph.nodes) {
    const bool once = node.phase == Phase::kUpdate;
    sum += flops(graph, node) * (once ? 1.0 : static_cast<double>(passes));
  }
  return sum;
}

}  // namespace runtime::graph
