// Makes rows and nodes of a plugin's signature, formula and gradient, and checks their dims.
#include "runtime/graph/open_nodes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/graph/formula.h"
#include "runtime/graph/scanner.h"
#include "runtime/graph/signature.h"

namespace runtime::graph {

namespace {

// The row of the backward operation: the gradient of the output, the inputs and the output -> the
// gradients of the inputs.
Formula backward_row(const Formula& forward, const Signature& s, const std::string& gradient) {
  const SignatureOperand& y = s.outputs[0];
  std::string inputs = "d" + y.name + y.view_text, outputs = "->";
  for (const SignatureOperand& x : s.inputs) {
    inputs += " " + x.name + x.view_text;
    outputs += " d" + x.name + x.view_text;
  }
  inputs += " " + y.name + y.view_text;
  return {forward.op + kOpenBackward, inputs + " " + s.attributes_text + outputs, gradient};
}

AttributeValue values_of(const std::vector<Attribute>& attributes) {
  return [&attributes](const std::string& name) {
    for (const Attribute& a : attributes) {
      if (a.name == name)
        return std::visit([](auto v) { return static_cast<int64_t>(v); }, a.value);
    }
    throw std::out_of_range("attribute '" + name + "'");
  };
}

// A value of another graph as an input of a graph in which a formula is tried.
ValueId copy_to(Graph& scratch, const Value& v) {
  return scratch.add_value(v.name, ValueKind::kInput, Dims(v.dims), v.dtype);
}

// The dims of the output: a name that the inputs have stands for the dims that it has there, and
// the others for the dims that the formula gives.
Dims output_dims(const Formula& formula, const SignatureOperand& output, const Dims& computed,
                 const NamedDims& names) {
  if (!output.shaped) return computed;
  if (output.view.size() != computed.size())
    fault(formula, "gives '" + output.name + "' as " + to_string(computed) +
                       ", but its brackets are " + output.view_text);
  Dims dims;
  for (size_t i = 0; i < computed.size(); ++i) {
    const ViewItem& item = output.view[i];
    if (item.name.empty()) continue;
    const auto known = names.find(item.name);
    const Dims part = known == names.end() ? Dims{computed[i]} : known->second;
    dims.insert(dims.end(), part.begin(), part.end());
  }
  if (element_count(dims) == element_count(computed)) return dims;
  fault(formula, "gives '" + output.name + "' as " + to_string(computed) +
                     ", but its brackets are " + to_string(dims));
}

// Computes the formula in a graph of its own, to learn the dims of its output.
Dims composed_dims(const Graph& graph, const Formula& formula, const std::vector<ValueId>& inputs,
                   const std::vector<Attribute>& attributes) {
  const Signature signature = read_signature(formula);
  Graph scratch;
  std::vector<ValueId> operands;
  NamedDims names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& v = graph.value(inputs[i]);
    operands.push_back(copy_to(scratch, v));
    if (i >= signature.inputs.size() ||
        !match(signature.inputs[i], v.dims, values_of(attributes), names))
      fault(formula, "does not fit input " + std::to_string(i) + ", which is " + to_string(v.dims));
  }
  Build build(scratch);
  const ValueId result = evaluate(build, formula, operands, attributes);
  return output_dims(formula, signature.outputs[0], scratch.value(result).dims, names);
}

// Computes the backward operation in a graph of its own, so that its faults are found with the
// model and not with the first training step.
void try_backward(const Graph& graph, const Formula& row, const std::vector<ValueId>& inputs,
                  const Value& output, const std::vector<Attribute>& attributes) {
  Graph scratch;
  Node node;
  node.op = row.op;
  node.attributes = attributes;
  node.inputs = {copy_to(scratch, output)};
  for (ValueId v : inputs) {
    node.inputs.push_back(copy_to(scratch, graph.value(v)));
    node.outputs.push_back(copy_to(scratch, graph.value(v)));
  }
  node.inputs.push_back(copy_to(scratch, output));
  Build build(scratch);
  expand(build, node, row);
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_attributes(const Formula& formula, const Signature& s,
                      const std::vector<std::string>& attributes) {
  for (const std::string& name : attributes) {
    if (!has(s.attributes, name)) fault(formula, "lacks the attribute '" + name + "' in braces");
  }
  for (const std::string& name : s.attributes) {
    if (!has(attributes, name)) fault(formula, "has '" + name + "' in braces, no attribute,");
  }
  for (const auto* list : {&s.inputs, &s.outputs}) {
    for (const SignatureOperand& o : *list) {
      for (const ViewItem& item : o.view) {
        if (item.takes == ViewItem::Takes::kAttribute && !has(attributes, item.attribute))
          fault(formula, "has '" + item.attribute + "' behind ^, no attribute,");
      }
    }
  }
}

void check_signature(const Formula& formula, const Signature& s) {
  if (!s.forward_terms.empty()) fault(formula, "has 'with', which is for the core,");
  if (s.inputs.empty() || s.inputs.size() * 2 + 2 > RT_MAX_INPUTS)
    fault(formula, "has " + std::to_string(s.inputs.size()) + " inputs, expected 1 to " +
                       std::to_string(RT_MAX_INPUTS / 2 - 1) + ",");
  if (s.outputs.size() != 1)
    fault(formula, "has " + std::to_string(s.outputs.size()) + " outputs, expected 1,");
  for (const auto* list : {&s.inputs, &s.outputs}) {
    for (const SignatureOperand& o : *list) {
      if (o.optional) fault(formula, "has the optional operand '" + o.name + "'");
    }
  }
}

}  // namespace

void fault(const Formula& formula, const std::string& what) {
  Scanner(formula.op, formula.signature).fail(what);
}

OpenOperation make_open_operation(Formula forward, const std::string& gradient,
                                  bool backward_kernel,
                                  const std::vector<std::string>& attributes) {
  const Signature signature = read_signature(forward);
  check_signature(forward, signature);
  check_attributes(forward, signature, attributes);
  OpenOperation made;
  if (!gradient.empty()) {
    made.gradient = OpenGradient::kFormula;
  } else if (!forward.text.empty()) {
    made.gradient = OpenGradient::kDerived;
  } else if (backward_kernel) {
    made.gradient = OpenGradient::kKernel;
  }
  // A kernel's backward operation has the operands of the row, too.
  if (made.gradient == OpenGradient::kFormula || made.gradient == OpenGradient::kKernel)
    made.backward = backward_row(forward, signature, gradient);
  made.forward = std::move(forward);
  return made;
}

OpenOperation make_open_loss(const std::string& op, const std::string& formula,
                             const std::string& gradient,
                             const std::vector<Attribute>& attributes) {
  const std::string compared = "y[N,D*] target[N,D*] weight[N,1] ";
  std::string names;
  for (const Attribute& a : attributes) names += a.name + " ";
  OpenOperation made;
  made.kind = Kind::kLoss;
  made.gradient = OpenGradient::kFormula;
  made.forward = {op, compared + "{" + names + "} -> loss[1]",
                  formula + "; loss = sum(gate(weight * l, weight), 0)"};
  made.backward = {op + kOpenBackward, compared + "dloss[1] {" + names + "} -> dy[N,D*]",
                   gradient + "; dy = gate(g, weight)"};
  return made;
}

ValueId add_open_node(Build& build, const std::string& op, const std::vector<ValueId>& inputs,
                      const std::vector<Attribute>& attributes) {
  const Graph& graph = build.graph();
  const std::shared_ptr<const OperationSet> set = graph.operations;
  const OpenOperation& operation = *set->find(op);
  Dims dims;
  if (!operation.forward.text.empty()) {
    dims = composed_dims(graph, operation.forward, inputs, attributes);
  } else {
    std::vector<Dims> of_inputs;
    for (ValueId v : inputs) of_inputs.push_back(graph.value(v).dims);
    dims = operation.shape(of_inputs, graph.value(inputs[0]).dtype, attributes);
  }
  const ValueId y = build.node1(op, inputs, dims, attributes);
  if (operation.gradient == OpenGradient::kFormula)
    try_backward(graph, operation.backward, inputs, graph.value(y), attributes);
  return y;
}

double flops_of_node(const Graph& graph, const Node& node) {
  if (!is_open(node.op)) return flops(graph, node);
  const Formula& formula = operation_of(graph, node).formula;
  if (formula.text.empty()) return 0;
  Graph scratch;
  Node same = node;
  for (auto* operands : {&same.inputs, &same.outputs}) {
    for (ValueId& v : *operands) v = copy_to(scratch, graph.value(v));
  }
  Build build(scratch);
  expand(build, same, formula);
  double sum = 0;
  for (const Node& made : scratch.nodes) sum += flops(scratch, made);
  return sum;
}

void expand_derived(Graph& graph) {
  if (graph.operations == nullptr) return;
  Build build(graph);
  for (Node& node : std::exchange(graph.nodes, {})) {
    const OpenOperation* const open = graph.operations->find(node.op);
    if (open == nullptr || open->gradient != OpenGradient::kDerived) {
      graph.nodes.push_back(std::move(node));
      continue;
    }
    build.layer = node.layer;
    build.phase = node.phase;
    expand(build, node, open->forward);
  }
}

}  // namespace runtime::graph
