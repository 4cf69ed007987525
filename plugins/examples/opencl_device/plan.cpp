#include "plan.h"

#include "rt/sdk/canonical_layout.h"
#include "rt/sdk/structs.h"

using opencl_device::check;
using opencl_device::Kernel;
using opencl_device::make;
using rt::sdk::Error;
using rt::sdk::format;

rt_plan::rt_plan(rt_device& owner, const rt::sdk::Operation& operation, bool build)
    : device(owner), op(operation), name_(operation.name()), build_(build) {}

Operand rt_plan::in(uint32_t i) const {
  return {Operand::kInput, i, 0, rt::sdk::tensor_bytes(op.input(i))};
}
Operand rt_plan::out(uint32_t i) const {
  return {Operand::kOutput, i, 0, rt::sdk::tensor_bytes(op.output(i))};
}

Operand rt_plan::scratch(int64_t bytes) {
  const Operand part{Operand::kWorkspace, 0, workspace_bytes_, static_cast<uint64_t>(bytes)};
  workspace_bytes_ += (part.bytes + 255) / 256 * 256;
  return part;
}

bool rt_plan::add(const char* kernel, const Items& items, std::initializer_list<Operand> buffers) {
  if (!build_ || items.x * items.y * items.z == 0) return false;
  Step step;
  step.kernel = make<Kernel>(kernel, clCreateKernel, device.program(real), kernel);
  step.buffers = buffers;
  step.arguments = static_cast<cl_uint>(2 * buffers.size());
  step.group = items.group;
  const int64_t wanted[] = {items.x, items.y, items.z};
  for (size_t i = 0; i < 3; ++i)
    step.items[i] = (wanted[i] + step.group[i] - 1) / step.group[i] * step.group[i];
  steps_.push_back(std::move(step));
  return true;
}

void rt_plan::set_bytes(const void* value, size_t bytes) {
  Step& step = steps_.back();
  check(clSetKernelArg(step.kernel.get(), step.arguments++, bytes, value), "clSetKernelArg");
}

void rt_plan::set(Real number) {
  const auto narrow = static_cast<float>(number.value);
  real == RT_FLOAT64 ? set_bytes(&number.value, 8) : set_bytes(&narrow, 4);
}

rt_plan_info rt_plan::info() const {
  rt_plan_info value{};
  value.flags = RT_PLAN_DETERMINISTIC;
  value.workspace_bytes = workspace_bytes_;
  value.saved_bytes = saved_bytes;
  std::copy(in_place.begin(), in_place.end(), value.in_place);
  rt::sdk::copy_text(value.implementation, "opencl " + name_);
  return value;
}

void rt_plan::set_buffer(const Step& step, cl_uint i, const rt_launch& launch) const {
  const Operand& operand = step.buffers[i];
  const void* const addresses[] = {
      operand.kind == Operand::kInput ? launch.inputs[operand.index] : nullptr,
      operand.kind == Operand::kOutput ? launch.outputs[operand.index] : nullptr, launch.workspace,
      launch.saved};
  const auto* const address = static_cast<const char*>(addresses[operand.kind]) + operand.offset;
  const auto place =
      operand.bytes > 0 ? device.memory.find(address) : decltype(device.memory)::Place{};
  if (place.room < operand.bytes)
    throw Error(
        RT_ERROR_INVALID_ARGUMENT,
        format("%s: %llu bytes at %p of operand %u, of which %llu are memory of this device",
               name_.c_str(), static_cast<unsigned long long>(operand.bytes), address,
               operand.index, static_cast<unsigned long long>(place.room)));
  const cl_mem object = place.object.get();
  const cl_ulong offset = place.offset;
  check(clSetKernelArg(step.kernel.get(), 2 * i, sizeof(cl_mem), &object), "clSetKernelArg");
  check(clSetKernelArg(step.kernel.get(), 2 * i + 1, sizeof(offset), &offset), "clSetKernelArg");
}

void rt_plan::launch(rt_stream& stream, const rt_launch& launch) {
  const std::lock_guard lock(mutex_);
  for (const Step& step : steps_) {
    for (cl_uint i = 0; i < step.buffers.size(); ++i) set_buffer(step, i, launch);
    check(clEnqueueNDRangeKernel(stream.queue.get(), step.kernel.get(), 3, nullptr,
                                 step.items.data(), step.group.data(), 0, nullptr, nullptr),
          name_.c_str());
  }
}
