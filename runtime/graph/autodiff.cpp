// The rules for gradients of operations, and the walk backwards that applies them.
#include "runtime/graph/autodiff.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/error.h"
#include "runtime/graph/activations.h"
#include "runtime/graph/build.h"
#include "runtime/graph/open_nodes.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/rules.h"
#include "runtime/graph/signature.h"

namespace runtime::graph {

// The state of one differentiation. Gradients are kept by storage value, so views share one.
class Differentiation {
 public:
  Differentiation(Graph& graph, const std::vector<ValueId>& wanted) : graph_(graph), build_(graph) {
    build_.phase = Phase::kBackward;
    for (ValueId v : wanted) needs_.insert_or_assign(graph.storage(v), true);
    for (const Node& n : graph.nodes) {
      bool any = false;
      for (ValueId v : n.inputs) any |= needs(v);
      if (any) {
        for (ValueId v : n.outputs) needs_.insert_or_assign(graph.storage(v), true);
      }
    }
  }

  bool needs(ValueId v) const { return needs_.contains(graph_.storage(v)); }
  const Dims& dims(ValueId v) const { return graph_.value(v).dims; }
  Build& build() { return build_; }

  void start(ValueId loss, ValueId dloss) { add_to(gradients_, loss, dloss); }

  // Sets the node whose gradient rule runs next.
  void begin(const Node& node) {
    build_.layer = node.layer;
    node_ = &node;
  }

  void add(ValueId v, ValueId gradient) {
    for (size_t i = 0; i < node_->inputs.size(); ++i) {
      if (node_->inputs[i] == v && (node_->partial.inputs >> i & 1))
        return add_to(parts_[node_->partial.communicator], v, gradient);
    }
    add_to(gradients_, v, gradient);
  }

  // The gradient of `v`, or kNone if the loss does not depend on it. It is complete: no rule may
  // add to it afterwards. Partial gradients (Node::partial) are all-reduced here, once for all
  // readers of the value.
  ValueId gradient(ValueId v) {
    const ValueId target = graph_.storage(v);
    for (auto& [communicator, parts] : parts_) {
      if (const auto part = parts.extract(target); !part.empty())
        add_to(gradients_, v, build_.all_reduce(part.mapped(), communicator));
    }
    const auto it = gradients_.find(target);
    return it == gradients_.end() ? kNone : graph_.reshape(it->second, Dims(dims(v)));
  }

  // Sums a gradient over the axes along which `v` was broadcast.
  ValueId unbroadcast(ValueId gradient, ValueId v) {
    const Dims from = dims(gradient), to = dims(v);
    const size_t extra = from.size() - to.size();
    uint64_t axes = 0;
    bool keep = false;
    for (size_t i = 0; i < from.size(); ++i) {
      const bool inner = i >= extra && to[i - extra] == 1 && from[i] != 1;
      keep |= inner;
      if (i < extra || inner) axes |= uint64_t{1} << i;
    }
    if (axes == 0) return graph_.reshape(gradient, to);
    return graph_.reshape(build_.reduce(gradient, RT_REDUCE_SUM, axes, keep), to);
  }

  // Adds a buffer that node `forward` writes and the last node, its backward, reads.
  void save(size_t forward) {
    Node& node = graph_.nodes[forward];
    if (node.saved == kNone)
      node.saved = graph_.add_value(node.layer + ".saved", ValueKind::kTemporary, {0}, RT_UINT8);
    graph_.nodes.back().saved = node.saved;
  }

  Graph& graph() { return graph_; }

 private:
  using Gradients = std::unordered_map<ValueId, ValueId>;

  void add_to(Gradients& gradients, ValueId v, ValueId gradient) {
    const ValueId target = graph_.storage(v);
    gradient = graph_.reshape(gradient, Dims(dims(target)));
    const auto [it, inserted] = gradients.try_emplace(target, gradient);
    if (!inserted) it->second = build_.add(it->second, gradient);
  }

  Graph& graph_;
  Build build_;
  std::unordered_map<ValueId, bool> needs_;
  Gradients gradients_;
  std::map<int32_t, Gradients> parts_;  // gradients to be summed over the ranks, by communicator
  const Node* node_ = nullptr;
};

namespace {

// [..., K] -> [rows, K]
ValueId as_matrix(Graph& graph, ValueId v) {
  const Dims& d = graph.value(v).dims;
  return graph.reshape(v, {element_count(d) / d.back(), d.back()});
}

ValueId activation_operand(const Node& n) {
  return backward_reads_operand(integer_attribute(n, RT_ATTR_FUNCTION, 0)) ? n.inputs[0]
                                                                           : n.outputs[0];
}

// The weights of the rows from which the statistics of x were computed.
ValueId weight_of_statistics(const Graph& graph, const Node& apply) {
  for (const Node& n : graph.nodes) {
    if (n.op == RT_OP_BATCH_NORM_STATISTICS && n.inputs[0] == apply.inputs[0]) return n.inputs[1];
  }
  throw InternalError("layer '" + apply.layer +
                      "': batch_norm_apply has no gradient without the "
                      "batch_norm_statistics of its input");
}

// The node that computes `v`; collectives in between are skipped.
const Node& origin(const Graph& graph, ValueId v) {
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& n = graph.nodes[i];
    if (n.outputs.empty() || graph.storage(n.outputs[0]) != graph.storage(v)) continue;
    if (!n.collective) return n;
    v = n.inputs[0];
  }
  throw InternalError("'" + graph.value(v).name + "' has no origin");
}

// Equal elements share the gradient of their maximum. Equivalent to: torch.amax. `kept` are the
// dims of x with 1 for each reduced axis.
void max_gradient(Differentiation& d, const Node& n, ValueId dy, const Dims& kept) {
  Build& b = d.build();
  const ValueId x = n.inputs[0];
  const Dims shape = d.dims(x);
  const ValueId y = d.graph().reshape(n.outputs[0], kept);
  const ValueId ones =
      b.node1(RT_OP_FILL, {}, shape, {{RT_ATTR_VALUE, 1.0}}, d.graph().value(x).dtype);
  const ValueId below = b.node1(RT_OP_SUBTRACT, {y, x}, shape);
  const ValueId other = b.node1(RT_OP_ACTIVATION_BACKWARD, {ones, below}, shape,
                                {{RT_ATTR_FUNCTION, int64_t{RT_ACTIVATION_RELU}}});
  const ValueId largest = b.scale(other, -1, 1);
  const ValueId count = b.reduce(
      largest, RT_REDUCE_SUM, static_cast<uint64_t>(integer_attribute(n, RT_ATTR_AXES, 0)), true);
  const ValueId share = b.node1(RT_OP_DIVIDE, {d.graph().reshape(dy, kept), count}, kept);
  d.add(x, b.multiply(largest, share));
}

// The names of the operands of an operation, by its definition or its formula.
OperandNames names_of(const Operation& operation) {
  const rt::sdk::Definition* const definition = operation.definition;
  if (definition == nullptr && operation.formula.signature.empty())
    throw InternalError("operation '" + operation.name + "' has neither definition nor formula");
  if (definition == nullptr) return operand_names(operation.formula);
  OperandNames names;
  for (const auto& o : definition->inputs) names.inputs.emplace_back(o.name);
  for (const auto& o : definition->outputs) names.outputs.emplace_back(o.name);
  return names;
}

// The operand of `n` with one of these names; kNone if it has none.
ValueId find_operand(const Node& n, const OperandNames& names, const std::string& name) {
  const auto find = [&](const std::vector<std::string>& list, const std::vector<ValueId>& values) {
    const auto at = static_cast<size_t>(std::find(list.begin(), list.end(), name) - list.begin());
    return at < std::min(list.size(), values.size()) ? values[at] : kNone;
  };
  const ValueId input = find(names.inputs, n.inputs);
  return input != kNone ? input : find(names.outputs, n.outputs);
}

// The same, but throws InternalError if it has none.
ValueId operand(const Node& n, const OperandNames& names, const std::string& name) {
  const ValueId found = find_operand(n, names, name);
  if (found != kNone) return found;
  throw InternalError("operation '" + n.op + "' has no operand '" + name +
                      "', which its backward operation names");
}

// Whether the operation can be without the input of this name.
bool is_optional(const Operation& operation, const std::string& name) {
  const auto* const row =
      operation.definition != nullptr ? operation.definition->inputs.find(name) : nullptr;
  return row != nullptr && row->is(rt::sdk::OperandDefinition::kOptional);
}

// Moves each start of a collective, from node `first` on, to right behind the node that writes its
// send buffer, so that the nodes in between run during the collective. The collective gets the
// origin of that node.
void start_early(Graph& graph, size_t first) {
  const auto begin = graph.nodes.begin();
  std::map<int32_t, int32_t> origins;  // by token
  for (size_t i = first; i < graph.nodes.size(); ++i) {
    if (!graph.nodes[i].collective) continue;
    const int32_t token = graph.nodes[i].collective->token;
    if (graph.nodes[i].collective->wait) {
      graph.nodes[i].origin = origins[token];
      continue;
    }
    const ValueId sent = graph.storage(graph.nodes[i].inputs[0]);
    size_t at = i;
    const auto writes = [&](const Node& n) {
      return std::any_of(n.outputs.begin(), n.outputs.end(),
                         [&](ValueId v) { return graph.storage(v) == sent; });
    };
    while (at > first && !writes(graph.nodes[at - 1])) --at;
    if (at > first) graph.nodes[i].origin = graph.nodes[at - 1].origin;
    origins[token] = graph.nodes[i].origin;
    std::rotate(begin + static_cast<std::ptrdiff_t>(at), begin + static_cast<std::ptrdiff_t>(i),
                begin + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

}  // namespace

// c = op(a) op(b); Goodfellow et al., "Deep Learning", 6.5.6
void matmul_gradient(Differentiation& d, size_t, const Node& n, ValueId dc) {
  ValueId a = n.inputs[0], b = n.inputs[1];
  const bool ta = integer_attribute(n, RT_ATTR_TRANSPOSE_A, 0),
             tb = integer_attribute(n, RT_ATTR_TRANSPOSE_B, 0);
  Build& build = d.build();
  if (d.needs(a)) {
    d.add(a, ta ? build.matmul(b, dc, tb, true) : build.matmul(dc, b, false, !tb));
  }
  if (!d.needs(b)) return;
  if (d.dims(a).size() > 2 && d.dims(b).size() == 2) {
    if (ta)
      throw InternalError(
          "matmul: no gradient for a transposed batch of matrices times one matrix");
    a = as_matrix(d.graph(), a);
    dc = as_matrix(d.graph(), dc);
  }
  d.add(b, tb ? build.matmul(dc, a, true, ta) : build.matmul(a, dc, !ta, false));
}

void conv2d_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const ValueId x = n.inputs[0], w = n.inputs[1];
  const std::vector<Attribute> attributes = n.attributes;
  if (d.needs(w))
    d.add(w, d.build().node1(RT_OP_CONV2D_BACKWARD_WEIGHTS, {x, dy}, Dims(d.dims(w)), attributes));
  if (d.needs(x))
    d.add(x, d.build().node1(RT_OP_CONV2D_BACKWARD_DATA, {dy, w}, Dims(d.dims(x)), attributes));
}

// The functions that `activation` alone has: no operation of their own computes dx.
void activation_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const ValueId x = n.inputs[0], y = n.outputs[0];
  Build& b = d.build();
  const auto over = [&](ValueId v) { return b.node1(RT_OP_DIVIDE, {dy, v}, Dims(d.dims(x))); };
  switch (integer_attribute(n, RT_ATTR_FUNCTION, 0)) {
    case RT_ACTIVATION_EXP:
      return d.add(x, b.multiply(dy, y));
    case RT_ACTIVATION_LOG:
      return d.add(x, over(x));
    case RT_ACTIVATION_SQRT:
      return d.add(x, b.scale(over(y), 0.5));
    case RT_ACTIVATION_RECIPROCAL:
      return d.add(x, b.scale(b.multiply(dy, b.multiply(y, y)), -1));
    case RT_ACTIVATION_SIN:
      return d.add(x, b.multiply(dy, b.activation(x, RT_ACTIVATION_COS)));
    case RT_ACTIVATION_COS:
      return d.add(x, b.scale(b.multiply(dy, b.activation(x, RT_ACTIVATION_SIN)), -1));
    case RT_ACTIVATION_FLOOR:
      return;  // 0 between the jumps
    default:
      return d.add(x, b.node1(RT_OP_ACTIVATION_BACKWARD, {dy, activation_operand(n)},
                              Dims(d.dims(x)), n.attributes));
  }
}

void add_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  for (ValueId v : {n.inputs[0], n.inputs[1]}) {
    if (d.needs(v)) d.add(v, d.unbroadcast(dy, v));
  }
}

void multiply_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const ValueId a = n.inputs[0], b = n.inputs[1];
  if (d.needs(a)) d.add(a, d.unbroadcast(d.build().multiply(dy, b), a));
  if (d.needs(b)) d.add(b, d.unbroadcast(d.build().multiply(dy, a), b));
}

void subtract_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const ValueId a = n.inputs[0], b = n.inputs[1];
  if (d.needs(a)) d.add(a, d.unbroadcast(dy, a));
  if (d.needs(b)) d.add(b, d.unbroadcast(d.build().scale(dy, -1), b));
}

// y = a / b
void divide_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const ValueId a = n.inputs[0], b = n.inputs[1];
  Build& build = d.build();
  const ValueId da = build.node1(RT_OP_DIVIDE, {dy, b}, Dims(d.dims(dy)));
  if (d.needs(a)) d.add(a, d.unbroadcast(da, a));
  if (d.needs(b)) d.add(b, d.unbroadcast(build.scale(build.multiply(da, n.outputs[0]), -1), b));
}

// `gate` of formulas: y = a where s > 0, else 0. It is constant in s.
void activation_backward_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  if (integer_attribute(n, RT_ATTR_FUNCTION, 0) != RT_ACTIVATION_RELU)
    throw InternalError("activation_backward has a gradient for relu only");
  d.add(n.inputs[0], d.build().node1(RT_OP_ACTIVATION_BACKWARD, {dy, n.inputs[1]}, Dims(d.dims(dy)),
                                     n.attributes));
}

void copy_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  d.add(n.inputs[0], dy);
}

void scale_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  d.add(n.inputs[0], d.build().scale(dy, number_attribute(n, RT_ATTR_ALPHA, 1)));
}

void square_sum_gradient(Differentiation& d, size_t, const Node& n, ValueId ds) {
  d.add(n.inputs[0], d.build().multiply(d.build().scale(n.inputs[0], 2), ds));
}

void dropout_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  d.add(n.inputs[0], d.build().node1(RT_OP_DROPOUT, {dy, n.inputs[1], n.inputs[2]},
                                     Dims(d.dims(dy)), n.attributes));
}

void rotary_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const int64_t inverse = integer_attribute(n, RT_ATTR_INVERSE, 0);
  d.add(n.inputs[0], d.build().node1(RT_OP_ROTARY, {dy, n.inputs[1]}, Dims(d.dims(dy)),
                                     {{RT_ATTR_HEADS, integer_attribute(n, RT_ATTR_HEADS, 1)},
                                      {RT_ATTR_INVERSE, 1 - inverse}}));
}

// The gradient flows from y to x through the statistics as well. This rank's sums are dbeta and
// dgamma. dx needs the sums of all ranks: a later pass inserts the collective between `sums` and
// `total`.
void batch_norm_apply_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const ValueId x = n.inputs[0], gamma = n.inputs[1], beta = n.inputs[2], moments = n.inputs[3];
  Build& build = d.build();
  const Dims c = d.dims(gamma), both = {2 * c[0]};
  const ValueId sums = build.node1(RT_OP_BATCH_NORM_BACKWARD_STATISTICS, {dy, x, moments},
                                   {1, both[0]}, n.attributes, d.graph().value(moments).dtype);
  const auto block = [&](int64_t start) {
    return build.node1(RT_OP_SLICE, {d.graph().reshape(sums, both)}, c,
                       {{RT_ATTR_AXIS, int64_t{0}}, {RT_ATTR_START, start}});
  };
  if (d.needs(beta)) d.add(beta, block(0));
  if (d.needs(gamma)) d.add(gamma, block(c[0]));
  if (!d.needs(x)) return;
  const ValueId total = build.reduce(sums, RT_REDUCE_SUM, 0b1);
  d.add(x, build.node1(RT_OP_BATCH_NORM_BACKWARD_APPLY,
                       {dy, x, gamma, moments, total, weight_of_statistics(d.graph(), n)},
                       Dims(d.dims(x)), n.attributes));
}

// From the loss to this rank's slice of the logits, with the softmax statistics of all ranks.
void cross_entropy_merge_gradient(Differentiation& d, size_t, const Node& n, ValueId dloss) {
  const Node statistics = origin(d.graph(), n.inputs[0]);
  const ValueId logits = statistics.inputs[0];
  d.add(logits, d.build().node1(RT_OP_CROSS_ENTROPY_BACKWARD_APPLY,
                                {logits, statistics.inputs[1], n.inputs[1], dloss, n.outputs[1]},
                                Dims(d.dims(logits)), statistics.attributes));
}

// The gradient of a sum is the gradient of each term, on every rank.
void gradient_of_collective(Differentiation& d, size_t index, const Node& n, ValueId dy) {
  if (n.collective->kind != RT_ALL_REDUCE) no_gradient(d, index, n, dy);
  if (n.collective->reduction != RT_SUM)
    throw InternalError("all_reduce has a gradient only where it adds");
  d.add(n.inputs[0], dy);
}

// Rows that were added up have the gradient of their sum.
void embedding_backward_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  d.add(n.inputs[1], d.build().node1(RT_OP_EMBEDDING, {n.inputs[0], dy}, Dims(d.dims(n.inputs[1])),
                                     n.attributes, d.graph().value(dy).dtype));
}

void transpose_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const int64_t packed = integer_attribute(n, RT_ATTR_PERMUTATION, 0);
  std::vector<int> inverse(d.dims(dy).size());
  for (size_t i = 0; i < inverse.size(); ++i) inverse[packed >> (4 * i) & 15] = static_cast<int>(i);
  d.add(n.inputs[0], d.build().transpose(dy, inverse));
}

void concat_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const int64_t axis = integer_attribute(n, RT_ATTR_AXIS, 0);
  int64_t start = 0;
  for (ValueId x : n.inputs) {
    const Dims shape = d.dims(x);
    if (d.needs(x))
      d.add(x, d.build().node1(RT_OP_SLICE, {dy}, shape,
                               {{RT_ATTR_AXIS, axis}, {RT_ATTR_START, start}}));
    start += shape.at(axis);
  }
}

void slice_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  d.add(n.inputs[0], d.build().node1(RT_OP_PAD, {dy}, Dims(d.dims(n.inputs[0])), n.attributes));
}

void pad_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  d.add(n.inputs[0], d.build().node1(RT_OP_SLICE, {dy}, Dims(d.dims(n.inputs[0])), n.attributes));
}

void cast_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  d.add(n.inputs[0], d.build().cast(dy, d.graph().value(n.inputs[0]).dtype));
}

// The gradient of a sum is dy for every element of x; that of a mean is dy / count.
void reduce_gradient(Differentiation& d, size_t, const Node& n, ValueId dy) {
  const int64_t function = integer_attribute(n, RT_ATTR_FUNCTION, 0);
  const ValueId x = n.inputs[0];
  const Dims shape = d.dims(x);
  Dims kept = shape;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (integer_attribute(n, RT_ATTR_AXES, 0) >> i & 1) kept[i] = 1;
  }
  if (function == RT_REDUCE_MAX) return max_gradient(d, n, dy, kept);
  const double share = function == RT_REDUCE_MEAN ? static_cast<double>(element_count(kept)) /
                                                        static_cast<double>(element_count(shape))
                                                  : 1;
  const ValueId zeros =
      d.build().node1(RT_OP_FILL, {}, shape, {{RT_ATTR_VALUE, 0.0}}, d.graph().value(x).dtype);
  d.add(x, d.build().add(zeros,
                         d.graph().reshape(share == 1 ? dy : d.build().scale(dy, share), kept)));
}

void no_gradient(Differentiation&, size_t, const Node& n, ValueId) {
  const std::string subject = "layer '" + n.layer + "': ";
  if (!is_open(n.op)) throw InternalError(subject + "operation " + n.op + " has no gradient");
  throw ConfigurationError(subject + n.op +
                           " has no gradient, because its plugin gives neither a formula nor a "
                           "backward operation; it can be evaluated only. Use another layer, or "
                           "freeze everything before it (model.freeze)");
}

void backward_operation(Differentiation& d, size_t index, const Node& n, ValueId dy) {
  Node named = n;
  named.op += "_backward";
  const Operation& backward = operation_of(d.graph(), named);
  const OperandNames names = names_of(operation_of(d.graph(), n)), own = names_of(backward);
  std::vector<ValueId> inputs, of;
  for (const std::string& name : own.inputs) {
    if (is_optional(backward, name) && find_operand(n, names, name) == kNone) continue;
    inputs.push_back(name == "d" + names.outputs[0] ? dy : operand(n, names, name));
  }
  std::vector<Dims> shapes;
  for (const std::string& name : own.outputs) {
    of.push_back(operand(n, names, name.substr(1)));
    shapes.push_back(d.dims(of.back()));
  }
  const std::vector<ValueId> gradients =
      d.build().node(backward.name, inputs, shapes, n.attributes);
  if (backward.definition != nullptr && backward.definition->has(rt::sdk::Definition::kSavesData))
    d.save(index);
  for (size_t i = 0; i < of.size(); ++i) {
    d.graph().retype(gradients[i], d.graph().value(of[i]).dtype);
    if (d.needs(of[i])) d.add(of[i], gradients[i]);
  }
}

std::map<ValueId, ValueId> differentiate(Graph& graph, ValueId loss_value, ValueId dloss,
                                         const std::vector<ValueId>& wanted) {
  expand_derived(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i].origin = static_cast<int32_t>(i);
  const size_t forward = graph.nodes.size();
  Differentiation d(graph, wanted);
  d.start(loss_value, dloss);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node n = graph.nodes[i];  // a copy, because the rules append to graph.nodes
    const bool start = n.collective && !n.collective->wait;
    if (start || n.outputs.empty() || !d.needs(n.outputs[0])) continue;
    d.begin(n);
    const size_t first = graph.nodes.size();
    const ValueId dy = d.gradient(n.outputs[0]);
    if (dy == kNone) continue;
    operation_of(graph, n).forward.gradient(d, i, n, dy);
    for (size_t k = first; k < graph.nodes.size(); ++k) graph.nodes[k].origin = n.origin;
  }
  std::map<ValueId, ValueId> result;
  for (ValueId v : wanted) {
    const ValueId g = d.gradient(v);
    if (g != kNone) result.emplace(v, g);
  }
  start_early(graph, forward);
  // The all-reduces that gradient(v) appended above.
  for (size_t k = forward; k < graph.nodes.size(); ++k) {
    if (graph.nodes[k].origin == kNone) graph.nodes[k].origin = graph.nodes[k - 1].origin;
  }
  return result;
}

}  // namespace runtime::graph
