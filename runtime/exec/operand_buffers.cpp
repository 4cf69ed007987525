// Names operands by the rows of the contract, and allocates memory for each name.
#include "runtime/exec/operand_buffers.h"

#include <algorithm>

#include "rt/sdk/definitions.h"
#include "rt/sdk/foreign_layout.h"

namespace runtime::exec {

namespace {

using plugins::host::Operation;
using rt::sdk::Definition;
using rt::sdk::OperandDefinition;

// The row of an operand, unless its name would stand for several operands.
const OperandDefinition* single(const OperandDefinition* row) {
  return row != nullptr && !row->is(OperandDefinition::kRepeated) ? row : nullptr;
}

}  // namespace

OperandNames::OperandNames(const Operation& operation) {
  const Definition* const definition = rt::sdk::find_definition(operation.name);
  const auto own = operation.inputs.size() -
                   static_cast<size_t>(std::count_if(
                       operation.post_ops.begin(), operation.post_ops.end(),
                       [](const plugins::host::PostOp& post) { return post.operand >= 0; }));
  for (size_t i = 0; i < operation.inputs.size(); ++i) {
    const OperandDefinition* const row =
        definition == nullptr || i >= own ? nullptr : single(definition->input(i));
    inputs.push_back(row == nullptr ? "input " + std::to_string(i) : std::string(row->name));
  }
  for (size_t i = 0; i < operation.outputs.size(); ++i) {
    const OperandDefinition* const row =
        definition == nullptr ? nullptr : definition->output(i, own);
    const bool apart = row != nullptr && definition->inputs.find(row->name) != nullptr &&
                       !row->is(OperandDefinition::kInPlace);
    outputs.push_back(row == nullptr || apart ? "output " + std::to_string(i)
                                              : std::string(row->name));
  }
}

namespace {

using Layouts = std::map<std::string, uint64_t>;

void add_layouts(const std::vector<std::string>& names, const std::vector<rt_tensor_desc>& operands,
                 Layouts& layouts) {
  for (size_t i = 0; i < names.size(); ++i) layouts.emplace(names[i], operands[i].layout);
}

// The layout of an operand of the forward operation `op`.
uint64_t forward_layout(const std::string& op, const std::string& name, int32_t rank,
                        const OperandDefinition* row, const Layouts& layouts) {
  if (const auto same = layouts.find(name); same != layouts.end()) return same->second;
  // The gradient of weights may have another layout than the weights.
  const bool follows = row != nullptr && row->is(OperandDefinition::kRows);
  const auto gradient = layouts.find("d" + name);
  if (follows && gradient != layouts.end()) return gradient->second;
  return rt::sdk::takes_foreign_layout(op, rank) ? RT_LAYOUT_ANY : RT_LAYOUT_CANONICAL;
}

}  // namespace

Operation in_layouts_of(Operation forward, const Operation& backward) {
  const Definition* const definition = rt::sdk::find_definition(forward.name);
  if (definition == nullptr) return forward;
  Layouts layouts;
  const OperandNames names(forward), theirs(backward);
  add_layouts(theirs.inputs, backward.inputs, layouts);
  add_layouts(theirs.outputs, backward.outputs, layouts);
  const auto set = [&](rt_tensor_desc& operand, const std::string& name,
                       const rt::sdk::OperandDefinitions& rows) {
    operand.layout = forward_layout(forward.name, name, operand.rank, rows.find(name), layouts);
  };
  for (size_t i = 0; i < names.inputs.size(); ++i)
    set(forward.inputs[i], names.inputs[i], definition->inputs);
  for (size_t i = 0; i < names.outputs.size(); ++i)
    set(forward.outputs[i], names.outputs[i], definition->outputs);
  return forward;
}

void OperandBuffers::need(const std::string& name, uint64_t bytes) {
  uint64_t& most = bytes_[name];
  most = std::max({most, bytes, uint64_t{1}});
}

void OperandBuffers::allocate(plugins::host::Device& device) {
  for (const auto& [name, bytes] : bytes_) memory_[name] = device.allocate(bytes);
}

void* OperandBuffers::at(const std::string& name) const {
  const auto found = memory_.find(name);
  return found == memory_.end() ? nullptr : found->second.data();
}

}  // namespace runtime::exec
