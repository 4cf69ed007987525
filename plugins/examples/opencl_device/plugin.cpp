// The entry and the tables.
#include "plan.h"
#include "rt/sdk/device_table.h"
#include "rt/sdk/kernel_table.h"

namespace {

constexpr char kImplementation[] = "opencl";
constinit const rt_device_api kDeviceApi = rt::sdk::device_table<Devices>();
constinit const rt_kernel_api kKernelApi =
    rt::sdk::built_kernel_table<kImplementation, add_kernels>();

rt::sdk::PluginDescription description() {
  return {.name = "opencl",
          .vendor = "runtime examples",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = "opencl-" RUNTIME_PLUGIN_VERSION "-1",  // change it with every kernel
          .description = "devices with OpenCL 1.2 or newer",
          .device = &kDeviceApi,
          .kernel = &kKernelApi};
}

}  // namespace

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return rt::sdk::make_plugin<Devices>(description, host, negotiation, plugin, error);
}
