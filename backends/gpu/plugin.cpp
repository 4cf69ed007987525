// The entry point of the plugins `cuda` and `rocm`.
#include "rt/plugin.h"

#include <string_view>

#include "backends/gpu/objects.h"
#include "rt/sdk/plugin.h"

namespace backends::gpu {
namespace {

// Increase this when a kernel changes, so that tuning results of older builds are ignored.
constexpr char kBuildId[] = BACKENDS_GPU_BUILD_ID;

const void* get_interface(void*, const char* name, uint32_t version) {
  const std::string_view wanted = name;
  if (wanted == RT_INTERFACE_DEVICE && version == RT_DEVICE_API_VERSION) return &device_api();
  if (wanted == RT_INTERFACE_KERNEL && version == RT_KERNEL_API_VERSION) return &kernel_api();
  if (wanted == RT_INTERFACE_NATIVE && version == RT_NATIVE_API_VERSION) return &native_api();
  if (wanted == RT_INTERFACE_CAPTURE && version == RT_CAPTURE_API_VERSION) return capture_api();
  return nullptr;
}

void shutdown(void* self) { delete static_cast<Instance*>(self); }

rt_plugin* make_plugin(const rt_host* host) {
  auto* instance = new Instance{{}, host};
  rt_plugin* plugin = &instance->plugin;
  plugin->size = sizeof(rt_plugin);
  plugin->self = instance;
  plugin->name = kPluginName;
  plugin->vendor = "runtime";
  plugin->version = RUNTIME_PLUGIN_VERSION;
  plugin->build_id = kBuildId;
  plugin->description = BACKENDS_GPU_DESCRIPTION;
  plugin->get_interface = get_interface;
  plugin->options = vendor_options;
  plugin->shutdown = shutdown;
  return plugin;
}

}  // namespace
}  // namespace backends::gpu

rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                          const rt_plugin** plugin, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt::sdk::negotiate(negotiation, backends::gpu::kPluginName);
    *plugin = backends::gpu::make_plugin(host);
  });
}
