// The entry point of the plugins `cuda` and `rocm`.
#include "backends/gpu/objects.h"
#include "rt/sdk/device_table.h"

namespace backends::gpu {
namespace {

// Increase this when a kernel changes, so that tuning results of older builds are ignored.
constexpr char kBuildId[] = BACKENDS_GPU_BUILD_ID;

constinit const rt_device_api kDeviceApi = rt::sdk::device_table<Devices>();

rt::sdk::PluginDescription description() {
  return {.name = kPluginName,
          .vendor = "runtime",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = kBuildId,
          .description = BACKENDS_GPU_DESCRIPTION,
          .device = &kDeviceApi,
          .kernel = &kKernelApi,
          .capture = capture_api(),
          .native = &kNativeApi,
          .options = vendor_options()};
}

}  // namespace
}  // namespace backends::gpu

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  using backends::gpu::Devices;
  return rt::sdk::make_plugin<Devices>(backends::gpu::description, host, negotiation, plugin,
                                       error);
}
