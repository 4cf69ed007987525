// Writes a graph as lines of text and as a drawing for Graphviz.
#include "runtime/graph/print.h"

#include <iterator>
#include <map>

#include "rt/sdk/tensor.h"

namespace runtime::graph {

namespace {

const char* kind_of(ValueKind kind) {
  // In the order of the enumerators.
  constexpr const char* kNames[] = {"temporary", "input",  "output",  "parameter",
                                    "state",     "packed", "constant"};
  static_assert(std::size(kNames) == static_cast<size_t>(ValueKind::kConstant) + 1);
  return kNames[static_cast<size_t>(kind)];
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text + ' ';
}

// "%9@%4+128 [256, 120]"
std::string operand(const Graph& graph, ValueId id) {
  if (id == kNone) return "none";
  const Value& value = graph.value(id);
  std::string text = "%" + std::to_string(id);
  if (value.base != kNone)
    text += "@%" + std::to_string(value.base) + "+" + std::to_string(value.offset);
  text += " " + to_string(value.dims);
  if (value.dtype != RT_FLOAT32) text += " " + name_of(value.dtype);
  if (value.layout != RT_LAYOUT_CANONICAL) text += " layout " + std::to_string(value.layout);
  return text;
}

std::string list(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId v : values) text += (text.empty() ? "" : ", ") + operand(graph, v);
  return text;
}

const char* name_of(const PostOp& post_op) {
  switch (post_op.kind) {
    case RT_POST_BIAS:
      return "bias";
    case RT_POST_ACTIVATION:
      return "activation";
    case RT_POST_RESIDUAL_ADD:
      return "residual_add";
    case RT_POST_STORE:
      return "store";
    default:
      return "activation_backward";
  }
}

std::string line(const Graph& graph, const Node& node) {
  std::string text = padded(name_of(node.phase), 8) + padded(node.layer, 20);
  const std::string results = list(graph, node.outputs);
  text += (results.empty() ? "" : results + " = ") + node.op + "(" + list(graph, node.inputs) + ")";
  for (const Attribute& a : node.attributes)
    text += " " + a.name + "=" + std::visit([](auto x) { return std::to_string(x); }, a.value);
  for (const PostOp& p : node.post_ops) text += std::string(" +") + name_of(p);
  if (node.saved != kNone) text += " saved=%" + std::to_string(node.saved);
  if (node.collective) {
    text += " communicator=" + std::to_string(node.collective->communicator) +
            " token=" + std::to_string(node.collective->token);
    if (node.collective->peer >= 0) text += " peer=" + std::to_string(node.collective->peer);
  }
  if (node.on_fallback) text += " on the fallback device";
  if (!node.implementation.empty()) text += " by " + node.implementation;
  return text + "\n";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

}  // namespace

std::string name_of(rt_dtype dtype) { return rt::sdk::to_string(dtype); }

const char* name_of(Phase phase) {
  // In the order of the enumerators.
  constexpr const char* kNames[] = {"forward", "backward", "update", "pack"};
  static_assert(std::size(kNames) == static_cast<size_t>(Phase::kPack) + 1);
  return kNames[static_cast<size_t>(phase)];
}

std::string signature(const Graph& graph, const Node& node) {
  std::string text = node.op;
  const auto operand = [&](char kind, ValueId v) {
    const Value& value = graph.value(v);
    text += kind + std::to_string(value.dtype) + to_string(value.dims);
  };
  for (ValueId v : node.inputs) operand('<', v);
  for (ValueId v : node.outputs) operand('>', v);
  for (const Attribute& a : node.attributes) {
    text += ' ' + a.name + '=';
    text += std::visit([](auto x) { return std::to_string(x); }, a.value);
  }
  for (const PostOp& p : node.post_ops) {
    text += " +" + std::to_string(p.kind) + '.' + std::to_string(p.function) + '.' +
            std::to_string(p.operand);
  }
  if (node.on_fallback) text += " on the fallback";
  return text;
}

std::string to_text(const Graph& graph) {
  std::string text;
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::kTemporary && value.base == kNone)
      text += padded(kind_of(value.kind), 9) + operand(graph, id) + " " + value.name + "\n";
  }
  text += "\n";
  for (const Node& node : graph.nodes) text += line(graph, node);
  return text;
}

std::string to_dot(const Graph& graph) {
  std::string text = "digraph step {\n  node [shape=box];\n";
  std::map<ValueId, size_t> writer;  // by storage: the last node that has written it
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const std::string id = "n" + std::to_string(i);
    text += "  " + id + " [label=" + quoted(node.op + " of " + node.layer) + "];\n";
    for (ValueId v : node.inputs) {
      if (const auto from = writer.find(graph.storage(v)); from != writer.end())
        text += "  n" + std::to_string(from->second) + " -> " + id +
                " [label=" + quoted(to_string(graph.value(v).dims)) + "];\n";
    }
    for (ValueId v : node.outputs) {
      if (v != kNone) writer[graph.storage(v)] = i;
    }
  }
  return text + "}\n";
}

}  // namespace runtime::graph
