// The checking table rt.kernel: descriptions, plans and their forward plans, and launches.
#include <algorithm>

#include "plugins/validate/calls.h"
#include "plugins/validate/difference.h"
#include "plugins/validate/guarded_launch.h"
#include "plugins/validate/launch.h"
#include "plugins/validate/order.h"

namespace plugins::validate {
namespace {

const rt_kernel_api& kernels_of(const Object& object) { return *object.instance.plain.kernel; }

// The description with the plugin's own forward plan. `forward` receives the checked one.
rt_op_desc unwrapped(const rt_op_desc& op, const PlanObject** forward) {
  rt_op_desc plain = op;
  if (op.forward == nullptr) return plain;
  const auto& plan = as<PlanObject>(const_cast<rt_plan*>(op.forward));
  expect_alive(plan, "use as a forward plan");
  if (forward != nullptr) *forward = &plan;
  plain.forward = plan.plain;
  return plain;
}

rt_status query(rt_device* handle, const rt_op_desc* op, rt_support* support, rt_error* error) {
  return with<DeviceObject>(handle, error, [&](DeviceObject& device) {
    expect_alive(device, "query");
    const rt_op_desc plain = unwrapped(*op, nullptr);
    require_made(kernels_of(device).query(device.plain, &plain, support, error));
  });
}

// The bytes and type of an operand. The plugin knows the bytes of its foreign layouts.
OperandSpec spec_of(DeviceObject& device, const rt_tensor_desc& tensor, rt_error* error) {
  OperandSpec spec;
  spec.dtype = tensor.dtype;
  spec.canonical = tensor.layout == RT_LAYOUT_CANONICAL;
  if (!spec.canonical) {
    require_made(kernels_of(device).layout_bytes(device.plain, &tensor, &spec.bytes, error));
    return spec;
  }
  spec.bytes = element_bytes(tensor.dtype);
  for (int32_t i = 0; i < tensor.rank; ++i) spec.bytes *= static_cast<uint64_t>(tensor.dims[i]);
  return spec;
}

void describe(PlanObject& plan, const rt_op_desc& op, rt_error* error) {
  for (uint32_t i = 0; i < op.input_count; ++i)
    plan.inputs.push_back(spec_of(*plan.device, *op.inputs[i], error));
  for (uint32_t i = 0; i < op.output_count; ++i)
    plan.outputs.push_back(spec_of(*plan.device, *op.outputs[i], error));
  plan.info.size = sizeof(plan.info);
  require_made(kernels_of(plan).info(plan.plain, &plan.info, error));
  rt_support support{};
  support.size = sizeof(support);
  const rt_op_desc plain = unwrapped(op, nullptr);
  if (kernels_of(plan).query(plan.device->plain, &plain, &support, error) == RT_OK)
    plan.tolerance = support.tolerance;
}

void expect_deterministic(const PlanObject& plan, const rt_op_desc& op) {
  if ((op.flags & RT_OP_DETERMINISTIC) == 0 || plan.is_deterministic()) return;
  plan.fault(Offender::kPlugin, "create",
             "a deterministic plan was asked for, and info does not say that it is one");
}

rt_status create(rt_device* handle, const rt_op_desc* op, rt_plan** result, rt_error* error) {
  return with<DeviceObject>(handle, error, [&](DeviceObject& device) {
    expect_alive(device, "create");
    auto plan =
        std::make_unique<PlanObject>(Kind::kPlan, device.instance, device.name + ": " + op->name);
    plan->device = &device;
    const rt_op_desc plain = unwrapped(*op, &plan->forward);
    require_made(kernels_of(device).create(device.plain, &plain, &plan->plain, error));
    if (plan->plain == nullptr) return;
    try {
      describe(*plan, *op, error);
      expect_deterministic(*plan, *op);
    } catch (...) {
      kernels_of(device).destroy(plan->plain);
      throw;
    }
    *result = static_cast<rt_plan*>(device.tracker().adopt(std::move(plan)));
  });
}

// The caller holds Tracker::mutex.
void expect_not_running(const PlanObject& plan) {
  if (plan.findings().failed()) return;
  for (const auto& [stream, epoch] : plan.launches) {
    if (plan.tracker().host.covers(epoch)) continue;
    plan.fault(
        Offender::kRuntime, "destroy",
        "a launch on stream " + std::to_string(stream) + " may still run; synchronise it first");
  }
}

// The caller holds Tracker::mutex.
void expect_no_backward(const PlanObject& plan) {
  for (const auto& [handle, object] : plan.tracker().objects) {
    if (object->kind != Kind::kPlan || !object->alive) continue;
    if (static_cast<const PlanObject&>(*object).forward != &plan) continue;
    plan.fault(
        Offender::kRuntime, "destroy",
        "the backward plan '" + object->name + "' still lives; destroy it before its forward plan");
  }
}

void destroy(rt_plan* handle) {
  released<PlanObject>(handle, [](PlanObject& plan) {
    expect_alive(plan, "destroy");
    {
      const std::lock_guard lock(plan.tracker().mutex);
      expect_not_running(plan);
      expect_no_backward(plan);
      plan.tracker().bury(plan);
    }
    kernels_of(plan).destroy(plan.plain);
  });
}

rt_status info(const rt_plan* handle, rt_plan_info* info, rt_error* error) {
  return with<PlanObject>(const_cast<rt_plan*>(handle), error, [&](PlanObject& plan) {
    expect_alive(plan, "info");
    require_made(kernels_of(plan).info(plan.plain, info, error));
  });
}

void expect_launchable(const PlanObject& plan, const StreamObject& stream,
                       const std::string& where) {
  expect_alive(plan, "launch");
  if (plan.forward != nullptr) expect_alive(*plan.forward, "launch of its backward plan");
  if (plan.device != stream.device)
    plan.findings().fault(Offender::kRuntime, where, "the plan was made for " + plan.device->name);
  if (stream.capture != nullptr && (plan.info.flags & RT_PLAN_CAPTURABLE) == 0)
    plan.findings().fault(Offender::kRuntime, where,
                          "the stream is recorded, and the plan is not RT_PLAN_CAPTURABLE");
}

void check_and_keep(PlanObject& plan, StreamObject& stream, const std::vector<Operand>& operands,
                    const std::string& where) {
  const std::lock_guard lock(plan.tracker().mutex);
  check_operands(plan, operands, where);
  const Epoch epoch = begin_work(stream);
  plan.launches[stream.number] = epoch;
  // What is read comes first: an in-place output would else seem to overwrite its input.
  for (const bool written : {false, true}) {
    for (const Operand& operand : operands) {
      if (operand.written == written)
        use(stream, operand.range, written, epoch, where + ": " + to_string(operand));
    }
  }
}

rt_status launch(rt_plan* handle, rt_stream* stream_handle, const rt_launch* launch,
                 rt_error* error) {
  return with<PlanObject>(handle, error, [&](PlanObject& plan) {
    auto& stream = as<StreamObject>(stream_handle);
    const Turn turn(stream, "launch");
    const std::string where = stream.name + ": launch of " + plan.name;
    expect_launchable(plan, stream, where);
    const std::vector<Operand> operands = operands_of(plan, *launch, where);
    check_and_keep(plan, stream, operands, where);
    if (stream.capture != nullptr || operands.empty()) {
      require(kernels_of(plan).launch(plan.plain, stream.plain, launch, error));
    } else {
      GuardedLaunch(plan, stream, *launch, operands, where, error).run();
    }
    if (!stream.device->is_inline()) return;
    const std::lock_guard lock(plan.tracker().mutex);
    plan.tracker().host.join(stream.clock);
  });
}

rt_status layout_bytes(rt_device* handle, const rt_tensor_desc* tensor, uint64_t* bytes,
                       rt_error* error) {
  return with<DeviceObject>(handle, error, [&](DeviceObject& device) {
    expect_alive(device, "layout_bytes");
    require_made(kernels_of(device).layout_bytes(device.plain, tensor, bytes, error));
  });
}

rt_status layout_name(rt_device* handle, const rt_tensor_desc* tensor, char* name,
                      uint64_t capacity, rt_error* error) {
  return with<DeviceObject>(handle, error, [&](DeviceObject& device) {
    expect_alive(device, "layout_name");
    require_made(kernels_of(device).layout_name(device.plain, tensor, name, capacity, error));
  });
}

}  // namespace

rt_kernel_api kernel_calls(const rt_kernel_api& plain) {
  rt_kernel_api table = plain;
  table.query = query;
  table.create = create;
  table.destroy = destroy;
  table.info = info;
  table.launch = launch;
  table.layout_bytes = layout_bytes;
  table.layout_name = layout_name;
  return table;
}

}  // namespace plugins::validate
