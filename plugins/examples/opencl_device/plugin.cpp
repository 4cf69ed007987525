// The entry and the tables.
#include "plan.h"
#include "rt/sdk/device_table.h"
#include "rt/sdk/kernel_table.h"

namespace {

constexpr char kImplementation[] = "opencl";
const rt_device_api kDeviceApi = rt::sdk::device_table<Devices>();
const rt_kernel_api kKernelApi = rt::sdk::built_kernel_table<kImplementation, add_kernels>();
const rt::sdk::DevicePlugin kPlugin = {"opencl",
                                       "runtime examples",
                                       RUNTIME_PLUGIN_VERSION,
                                       "opencl-" RUNTIME_PLUGIN_VERSION
                                       "-1",  // change it with every change of a kernel
                                       "devices with OpenCL 1.2 or newer",
                                       &kDeviceApi,
                                       &kKernelApi};

}  // namespace

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return rt::sdk::make_device_plugin<Devices>(kPlugin, host, negotiation, plugin, error);
}
