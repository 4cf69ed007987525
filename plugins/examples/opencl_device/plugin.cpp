// The entry and the tables.
#include <memory>

#include "operations.h"
#include "rt/sdk/device_table.h"
#include "rt/sdk/kernel_table.h"

namespace opencl_device {
namespace {

void check_supported(rt_device& device, const rt::sdk::Operation& op) {
  rt_plan plan(device, op, false);
  add_kernels(plan);
}

rt_plan* make_plan(rt_device& device, const rt::sdk::Operation& op) {
  auto plan = std::make_unique<rt_plan>(device, op, true);
  add_kernels(*plan);
  return plan.release();
}

constexpr char kImplementation[] = "opencl";
const rt_device_api kDeviceApi = rt::sdk::device_table<Devices>();
const rt_kernel_api kKernelApi =
    rt::sdk::kernel_table<kImplementation, check_supported, make_plan>();
const rt::sdk::DevicePlugin kPlugin = {"opencl",
                                       "runtime examples",
                                       RUNTIME_PLUGIN_VERSION,
                                       "opencl-" RUNTIME_PLUGIN_VERSION
                                       "-1",  // change it with every change of a kernel
                                       "devices with OpenCL 1.2 or newer",
                                       &kDeviceApi,
                                       &kKernelApi};

}  // namespace
}  // namespace opencl_device

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return rt::sdk::make_device_plugin<opencl_device::Devices>(opencl_device::kPlugin, host,
                                                             negotiation, plugin, error);
}
