// The entry and the tables. Several instances may live in one process (ranks as threads): keep
// state in Devices and rt_device, not in globals.
#include "rt/sdk/device_table.h"
#include "template_device.h"

namespace template_device {
namespace {

constexpr char kImplementation[] = "template_device";
constinit const rt_device_api kDeviceApi = rt::sdk::device_table<Devices>();
constinit const rt_kernel_api kKernelApi =
    rt::sdk::kernel_table<kImplementation, check_supported, make_plan>();

rt::sdk::PluginDescription description() {
  return {.name = "template_device",  // selected by device.backend
          .vendor = "your name",
          .version = RUNTIME_PLUGIN_VERSION,
          // Change it with every change of a kernel or layout:
          .build_id = "template_device-" RUNTIME_PLUGIN_VERSION "-1",
          .description = "a device to start from",
          .device = &kDeviceApi,
          .kernel = &kKernelApi};
}

}  // namespace
}  // namespace template_device

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  using template_device::Devices;
  return rt::sdk::make_plugin<Devices>(template_device::description, host, negotiation, plugin,
                                       error);
}
