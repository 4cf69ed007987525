// The entry of the plugin `simulated`.
#include "rt/plugin.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "rt/sdk/plugin.h"
#include "tests/backends/simulated/objects.h"

namespace backends::simulated {
namespace {

// The plugin counts devices before it knows any option, so their number comes from the environment.
constexpr char kCountVariable[] = "RUNTIME_SIMULATED_DEVICES";
constexpr int32_t kDefaultCount = 2, kMostDevices = 64;

struct Instance : Simulator {
  using Simulator::Simulator;
  rt_plugin plugin{};
};

int32_t device_count() {
  const char* text = std::getenv(kCountVariable);
  if (text == nullptr) return kDefaultCount;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*text == '\0' || *end != '\0' || count < 0 || count > kMostDevices) {
    throw rt::sdk::Error(RT_ERROR_INVALID_ARGUMENT,
                         rt::sdk::format("%s is '%s', expected a number from 0 to %d",
                                         kCountVariable, text, kMostDevices),
                         RT_SCOPE_PROCESS);
  }
  return static_cast<int32_t>(count);
}

const void* get_interface(void*, const char* name, uint32_t version) {
  if (std::string_view(name) == RT_INTERFACE_DEVICE && version == RT_DEVICE_API_VERSION) {
    return device_table();
  }
  if (std::string_view(name) == RT_INTERFACE_KERNEL && version == RT_KERNEL_API_VERSION) {
    return kernel_table();
  }
  if (std::string_view(name) == RT_INTERFACE_CAPTURE && version == RT_CAPTURE_API_VERSION) {
    return capture_table();
  }
  return nullptr;
}

const rt_option_spec* const* options(void*, uint32_t* count) { return option_specs(count); }

void shutdown(void* self) { delete static_cast<Instance*>(static_cast<Simulator*>(self)); }

const rt_plugin* make_plugin() {
  auto* instance = new Instance(device_count());
  rt_plugin& plugin = instance->plugin;
  plugin.size = sizeof(rt_plugin);
  plugin.self = static_cast<Simulator*>(instance);
  plugin.name = "simulated";
  plugin.vendor = "runtime";
  plugin.version = RUNTIME_PLUGIN_VERSION;
  plugin.build_id = "simulated-1";
  plugin.description = "accelerators made of the reference kernels, for tests";
  plugin.get_interface = get_interface;
  plugin.options = options;
  plugin.shutdown = shutdown;
  return &plugin;
}

}  // namespace
}  // namespace backends::simulated

rt_status rt_plugin_entry(const rt_host*, rt_negotiation* negotiation, const rt_plugin** plugin,
                          rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt::sdk::negotiate(negotiation, "simulated");
    *plugin = backends::simulated::make_plugin();
  });
}
