// Sets the arguments of OpenCL kernels, and queues them with the buffers of a launch.
#include "plan.h"

rt_plan::rt_plan(rt_device& owner, const rt::sdk::Operation& operation, bool build)
    : PlanOperands(operation), device(owner), build_(build) {}

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

void rt_plan::set_buffer(const Step& step, cl_uint i, const rt_launch& launch) const {
  const auto buffer = place(device.memory, step.buffers[i], launch);
  const cl_mem object = buffer.object.get();
  check(clSetKernelArg(step.kernel.get(), 2 * i, sizeof(cl_mem), &object), "clSetKernelArg");
  check(clSetKernelArg(step.kernel.get(), 2 * i + 1, sizeof(cl_ulong), &buffer.offset),
        "clSetKernelArg");
}

void rt_plan::launch(rt_stream& stream, const rt_launch& launch) {
  const std::lock_guard lock(mutex_);
  for (const Step& step : steps_) {
    for (cl_uint i = 0; i < step.buffers.size(); ++i) set_buffer(step, i, launch);
    check(clEnqueueNDRangeKernel(stream.queue.get(), step.kernel.get(), 3, nullptr,
                                 step.items.data(), step.group.data(), 0, nullptr, nullptr),
          name().c_str());
  }
}
