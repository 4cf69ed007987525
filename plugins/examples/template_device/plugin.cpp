// The entry. Several instances may live in one process (ranks as threads): keep state in the
// instance, not in globals.
#include "rt/sdk/plugin.h"

#include <cstring>

#include "template.h"

namespace {

struct Instance {
  rt_plugin view{};
  const rt_host* host = nullptr;  // use host->log(...) for messages
};

const void* get_interface(void*, const char* name, uint32_t version) {
  if (std::strcmp(name, RT_INTERFACE_DEVICE) == 0 && version == RT_DEVICE_API_VERSION) {
    return &template_device::kDeviceApi;
  }
  if (std::strcmp(name, RT_INTERFACE_KERNEL) == 0 && version == RT_KERNEL_API_VERSION) {
    return &template_device::kKernelApi;
  }
  return nullptr;
}

void shutdown(void* self) { delete static_cast<Instance*>(self); }

}  // namespace

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt::sdk::negotiate(negotiation, "template");
    auto* self = new Instance;
    self->host = host;
    self->view.size = sizeof(rt_plugin);
    self->view.self = self;
    self->view.name = "template";  // [a-z][a-z0-9_]*; selected by device.backend = "template"
    self->view.vendor = "your name";
    self->view.version = "1.0.0";
    self->view.build_id = "template-1.0.0";  // change it with every change of a kernel or layout
    self->view.description = "a device to start from";
    self->view.get_interface = get_interface;
    self->view.options = rt::sdk::no_options;
    self->view.shutdown = shutdown;
    *plugin = &self->view;
  });
}
