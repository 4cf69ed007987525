// The entry point of the plugin `reference`.
#include "rt/plugin.h"

#include <string_view>

#include "backends/reference/objects.h"
#include "rt/sdk/plugin.h"

namespace backends::reference {
namespace {

const void* get_interface(void*, const char* name, uint32_t version) {
  if (std::string_view(name) == RT_INTERFACE_DEVICE && version == RT_DEVICE_API_VERSION) {
    return device_table();
  }
  if (std::string_view(name) == RT_INTERFACE_KERNEL && version == RT_KERNEL_API_VERSION) {
    return kernel_table();
  }
  return nullptr;
}

void shutdown(void* self) { delete static_cast<rt_plugin*>(self); }

rt_plugin* make_plugin() {
  auto* plugin = new rt_plugin{};
  plugin->size = sizeof(rt_plugin);
  plugin->self = plugin;
  plugin->name = "reference";
  plugin->vendor = "runtime";
  plugin->version = RUNTIME_PLUGIN_VERSION;
  plugin->build_id = "reference-1";
  plugin->description = "plain C++ on one thread: the definition of every operation";
  plugin->get_interface = get_interface;
  plugin->options = rt::sdk::no_options;
  plugin->shutdown = shutdown;
  return plugin;
}

}  // namespace
}  // namespace backends::reference

rt_status rt_plugin_entry(const rt_host*, rt_negotiation* negotiation, const rt_plugin** plugin,
                          rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt::sdk::negotiate(negotiation, "reference");
    *plugin = backends::reference::make_plugin();
  });
}
