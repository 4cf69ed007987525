// Lists the operands of a launch, and checks their number, memory and overlap.
#include "plugins/validate/launch.h"

#include "plugins/validate/memory.h"

namespace plugins::validate {
namespace {

void expect_count(const PlanObject& plan, const char* what, uint32_t count, std::size_t expected,
                  const std::string& where) {
  if (count == expected) return;
  plan.findings().fault(
      Offender::kRuntime, where,
      std::to_string(count) + " " + what + ", but the plan has " + std::to_string(expected));
}

Operand operand_of(const char* role, uint32_t index, const OperandSpec& spec, bool written) {
  return {role, index, {0, spec.bytes}, spec.dtype, spec.canonical, !written, written};
}

// Whether the plan lets the output use the memory of the input.
bool is_in_place(const PlanObject& plan, const Operand& a, const Operand& b) {
  const Operand& output = a.written ? a : b;
  const Operand& input = a.written ? b : a;
  return std::string_view(output.role) == "output" && std::string_view(input.role) == "input" &&
         output.range.begin == input.range.begin &&
         (plan.info.in_place[output.index] >> input.index & 1) != 0;
}

}  // namespace

std::string to_string(const Operand& operand) {
  const bool numbered = std::string_view(operand.role).ends_with("put");
  return operand.role + (numbered ? " " + std::to_string(operand.index) : "");
}

std::vector<Operand> operands_of(const PlanObject& plan, const rt_launch& launch,
                                 const std::string& where) {
  expect_count(plan, "inputs", launch.input_count, plan.inputs.size(), where);
  expect_count(plan, "outputs", launch.output_count, plan.outputs.size(), where);
  std::vector<Operand> operands;
  const auto add = [&](Operand operand, const void* address) {
    if (operand.range.bytes == 0) return;
    operand.range.begin = reinterpret_cast<uintptr_t>(address);
    if (address == nullptr)
      plan.findings().fault(Offender::kRuntime, where + ": " + to_string(operand),
                            "is NULL, but has " + std::to_string(operand.range.bytes) + " bytes");
    operands.push_back(operand);
  };
  for (uint32_t i = 0; i < launch.input_count; ++i)
    add(operand_of("input", i, plan.inputs[i], false), launch.inputs[i]);
  for (uint32_t i = 0; i < launch.output_count; ++i)
    add(operand_of("output", i, plan.outputs[i], true), launch.outputs[i]);
  const OperandSpec workspace{plan.info.workspace_bytes, RT_UINT8, false},
      saved{plan.saved_bytes(), RT_UINT8, false};
  add(operand_of("workspace", 0, workspace, true), launch.workspace);
  add(operand_of("saved data", 0, saved, plan.forward == nullptr), launch.saved);
  return operands;
}

void check_operands(const PlanObject& plan, const std::vector<Operand>& operands,
                    const std::string& where) {
  const uint64_t alignment = plan.device->properties.alignment;
  for (const Operand& operand : operands) {
    const std::string what = where + ": " + to_string(operand);
    expect_device_memory(*plan.device, operand.range, what);
    if (operand.range.begin % alignment != 0)
      plan.findings().fault(
          Offender::kRuntime, what,
          to_string(operand.range) + " are not aligned to " + std::to_string(alignment) + " bytes");
    for (const Operand& other : operands) {
      if (&other == &operand) break;
      const bool allowed = (operand.is_input() && other.is_input()) ||
                           !operand.range.overlaps(other.range) ||
                           is_in_place(plan, operand, other);
      if (!allowed)
        plan.findings().fault(Offender::kRuntime, what,
                              to_string(operand.range) + " overlap " + to_string(other) + ", " +
                                  to_string(other.range) + ", and the plan allows that to no pair");
    }
  }
}

}  // namespace plugins::validate
