// Plans for devices whose memory has handles: where a kernel's buffers lie is looked up at a
// launch.
#ifndef RT_SDK_PLAN_OPERANDS_H_
#define RT_SDK_PLAN_OPERANDS_H_

#include <algorithm>
#include <array>
#include <string>

#include "rt/sdk/address_map.h"
#include "rt/sdk/canonical_layout.h"
#include "rt/sdk/kernel_table.h"

namespace rt::sdk {

// A buffer of a kernel: an operand of the operation, or a part of the workspace or saved data.
struct Operand {
  enum Kind { kInput, kOutput, kWorkspace, kSaved } kind;  // which memory of the launch it lies in
  uint32_t index;                                          // of an input or output
  uint64_t offset;                                         // bytes from its address
  uint64_t bytes;                                          // its size
};

// The part of a plan that knows its operands. A plan derives from it, asks for operands while it
// makes its kernels, and for their places in each launch. Threads: while the plan is made, one;
// address() and place(), any.
class PlanOperands : public PlanBase {
 public:
  // `operation` is used only while the plan is made.
  explicit PlanOperands(const Operation& operation) : op(operation), name_(operation.name()) {}

  explicit PlanOperands(const Operation&&) = delete;

  // Return input and output i of the operation.
  Operand in(uint32_t i) const { return {Operand::kInput, i, 0, tensor_bytes(op.input(i))}; }
  Operand out(uint32_t i) const { return {Operand::kOutput, i, 0, tensor_bytes(op.output(i))}; }
  // A part of the workspace, on a multiple of 256 bytes. Each call gives another part.
  Operand scratch(int64_t bytes) {
    const Operand part{Operand::kWorkspace, 0, workspace_bytes_, static_cast<uint64_t>(bytes)};
    workspace_bytes_ += (part.bytes + 255) / 256 * 256;
    return part;
  }
  // Returns what this plan saves for its backward plan.
  Operand saves(int64_t bytes) {
    saved_bytes_ = static_cast<uint64_t>(bytes);
    return {Operand::kSaved, 0, 0, saved_bytes_};
  }
  // Returns what the forward plan has saved. `forward` is rt_op_desc.forward, null in a query.
  // Throws Error (RT_ERROR_INVALID_ARGUMENT) if the forward plan saves another number of bytes.
  Operand saved_by(const PlanOperands* forward, int64_t bytes) const {
    const Operand saved{Operand::kSaved, 0, 0, static_cast<uint64_t>(bytes)};
    if (forward != nullptr && forward->saved_bytes_ != saved.bytes)
      op.fail(format("the forward plan saves %llu bytes, expected %llu; it has other shapes",
                     static_cast<unsigned long long>(forward->saved_bytes_),
                     static_cast<unsigned long long>(saved.bytes)));
    return saved;
  }

  // The answer of rt_kernel_api.info for a plan whose results are the same in each launch. The
  // implementation is called "<vendor> <operation>".
  rt_plan_info info(const char* vendor) const {
    rt_plan_info value{};
    value.flags = RT_PLAN_DETERMINISTIC;
    value.workspace_bytes = workspace_bytes_;
    value.saved_bytes = saved_bytes_;
    std::copy(in_place.begin(), in_place.end(), value.in_place);
    copy_text(value.implementation, vendor + (" " + name_));
    return value;
  }

  // Returns the address of an operand in a launch; NULL if the launch has no such memory.
  static const void* address(const Operand& operand, const rt_launch& launch) {
    const void* const addresses[] = {
        operand.kind == Operand::kInput ? launch.inputs[operand.index] : nullptr,
        operand.kind == Operand::kOutput ? launch.outputs[operand.index] : nullptr,
        launch.workspace, launch.saved};
    const auto* const begin = static_cast<const char*>(addresses[operand.kind]);
    return begin == nullptr ? nullptr : begin + operand.offset;
  }
  // The object that an operand lies in, and where; an empty one for an operand without bytes,
  // whose address means nothing. Throws Error (RT_ERROR_INVALID_ARGUMENT) if `memory` does not have
  // all of the operand.
  template <typename Object>
  typename AddressMap<Object>::Place place(const AddressMap<Object>& memory, const Operand& operand,
                                           const rt_launch& launch) const {
    if (operand.bytes == 0) return {};
    const void* const at = address(operand, launch);
    auto found = memory.find(at);
    if (found.room >= operand.bytes) return found;
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        format("%s: %llu bytes at %p of operand %u, of which %llu are memory of this device",
               name_.c_str(), static_cast<unsigned long long>(operand.bytes), at, operand.index,
               static_cast<unsigned long long>(found.room)));
  }

  const Operation& op;                              // valid while the plan is made
  std::array<uint32_t, RT_MAX_OUTPUTS> in_place{};  // as in rt_plan_info

 protected:
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
  uint64_t workspace_bytes_ = 0, saved_bytes_ = 0;
};

}  // namespace rt::sdk

#endif  // RT_SDK_PLAN_OPERANDS_H_
