// Checks a plugin's optimizer by expanding it, and finds its states.
#include "runtime/graph/open_optimizer.h"

#include "runtime/graph/formula.h"
#include "runtime/graph/operation_set.h"
#include "runtime/graph/signature.h"

namespace runtime::graph {

namespace {

constexpr const char* kStep = "step";

// Whether each element of the node's output depends on the same element of its inputs alone.
bool is_elementwise(const Graph& graph, const Node& node) {
  const Kind kind = kind_of(graph, node);
  return kind == Kind::kElementwise || kind == Kind::kAdds || kind == Kind::kCopies;
}

// Computes the plugin's own formula for a few parameters in a graph of its own.
void try_formula(const Formula& formula, const Signature& signature,
                 const std::vector<Attribute>& attributes) {
  Graph graph;
  Node node;
  node.op = formula.op;
  node.attributes = attributes;
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const bool step = signature.inputs[i].name == kStep;
    node.inputs.push_back(graph.add_value(signature.inputs[i].name, ValueKind::kState,
                                          {step || i == 2 ? 1 : 7}, step ? RT_INT64 : RT_FLOAT32));
    if (!step && i != 1 && i != 2) node.outputs.push_back(node.inputs.back());
  }
  Build build(graph);
  expand(build, node, formula);
  for (const Node& made : graph.nodes) {
    if (!is_elementwise(graph, made))
      fault(formula, "uses " + made.op +
                         ", but each element of an optimizer's buffers must be "
                         "computed from the same elements alone,");
  }
}

std::string lines(const Signature& s, const OptimizerOperands& operands, const std::string& text) {
  const std::string p = s.inputs[0].name, g = s.inputs[1].name;
  std::vector<std::string> buffers = {p};
  buffers.insert(buffers.end(), operands.state.begin(), operands.state.end());
  std::string before, after;
  for (const std::string& b : buffers) {
    before += b + "_before = " + b + "; ";
    after +=
        "; " + b + " = scaled ? unless_skipped(" + b + ", " + b + "_before, gradient_scale) : " + b;
  }
  before += g + " = scaled ? scaled_gradient(" + g + ", gradient_scale) : " + g + "; ";
  const size_t end = text.find_last_not_of("; \n\t");
  return before + text.substr(0, end + 1) + after;
}

std::string row_signature(const Signature& s, const OptimizerOperands& operands) {
  const std::string all = "[E*] ", one = "[1] ";
  std::string state;
  for (const std::string& name : operands.state) state += name + all;
  std::string attributes = s.attributes_text.empty() ? "{" : s.attributes_text;
  if (attributes.back() == '}') attributes.back() = ' ';
  return s.inputs[0].name + all + s.inputs[1].name + all + s.inputs[2].name + one +
         "gradient_scale" + one + state + (operands.step ? std::string(kStep) + " " : "") +
         attributes + "scaled=1} -> " + s.inputs[0].name + all + state;
}

}  // namespace

OptimizerOperands optimizer_operands(const Formula& formula) {
  const Signature s = read_signature(formula);
  if (s.inputs.size() < 3 || s.inputs.size() > 8)
    fault(formula, "has " + std::to_string(s.inputs.size()) +
                       " inputs, expected parameters, gradients and learning rate, state buffers,");
  OptimizerOperands operands;
  for (size_t i = 3; i < s.inputs.size(); ++i) {
    if (s.inputs[i].name == kStep) {
      operands.step = true;
    } else {
      operands.state.push_back(s.inputs[i].name);
    }
  }
  std::vector<std::string> expected = {s.inputs[0].name}, outputs;
  expected.insert(expected.end(), operands.state.begin(), operands.state.end());
  for (const SignatureOperand& o : s.outputs) outputs.push_back(o.name);
  if (outputs != expected)
    fault(formula, "has other outputs than the parameters and the state buffers, in their order,");
  return operands;
}

OpenOperation make_open_optimizer(const Formula& formula,
                                  const std::vector<Attribute>& attributes) {
  const Signature signature = read_signature(formula);
  const OptimizerOperands operands = optimizer_operands(formula);
  try_formula(formula, signature, attributes);
  OpenOperation made;
  made.kind = Kind::kOptimizer;
  made.forward = {formula.op + "_update", row_signature(signature, operands),
                  lines(signature, operands, formula.text)};
  return made;
}

}  // namespace runtime::graph
