// The simulated accelerator, of which every function misbehaves when it is asked to.
#include <cstring>
#include <deque>
#include <mutex>

#include "rt/capture.h"
#include "rt/kernel.h"
#include "rt/plugin.h"
#include "tests/plugins/misbehaving/misbehave.h"

extern "C" rt_status simulated_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error);

namespace {

using misbehaving::good;

rt_device_api device;
rt_kernel_api kernel;
rt_capture_api capture;
std::deque<rt_plugin> instances;

template <typename Api>
void keep(const rt_plugin& plugin, const char* interface, Api& copy) {
  good<Api> = static_cast<const Api*>(good<rt_plugin>->get_interface(plugin.self, interface, 1));
  copy = *good<Api>;
}

void wrap_device() {
  MISBEHAVE(device, "device", count);
  MISBEHAVE(device, "device", properties);
  MISBEHAVE(device, "device", open);
  MISBEHAVE(device, "device", close);
  MISBEHAVE(device, "device", allocate);
  MISBEHAVE(device, "device", free);
  MISBEHAVE(device, "device", stream_create);
  MISBEHAVE(device, "device", stream_destroy);
  MISBEHAVE(device, "device", stream_synchronize);
  MISBEHAVE(device, "device", copy);
  MISBEHAVE(device, "device", fill);
  MISBEHAVE(device, "device", event_create);
  MISBEHAVE(device, "device", event_destroy);
  MISBEHAVE(device, "device", event_record);
  MISBEHAVE(device, "device", event_wait);
  MISBEHAVE(device, "device", event_synchronize);
  MISBEHAVE(device, "device", event_query);
  MISBEHAVE(device, "device", event_elapsed);
  MISBEHAVE(device, "device", memory_info);
  MISBEHAVE(device, "device", utilisation);
}

void wrap_kernel_and_capture() {
  MISBEHAVE(kernel, "kernel", query);
  MISBEHAVE(kernel, "kernel", create);
  MISBEHAVE(kernel, "kernel", destroy);
  MISBEHAVE(kernel, "kernel", info);
  MISBEHAVE(kernel, "kernel", launch);
  MISBEHAVE(kernel, "kernel", layout_bytes);
  MISBEHAVE(kernel, "kernel", layout_name);
  MISBEHAVE(capture, "capture", begin);
  MISBEHAVE(capture, "capture", end);
  MISBEHAVE(capture, "capture", replay);
  MISBEHAVE(capture, "capture", destroy);
}

const void* get_interface(void* self, const char* name, uint32_t version) {
  if (misbehaving::misbehaves("plugin.get_interface")) return misbehaving::act<const void*>();
  if (good<rt_plugin>->get_interface(self, name, version) == nullptr) return nullptr;
  if (std::strcmp(name, RT_INTERFACE_DEVICE) == 0) return &device;
  if (std::strcmp(name, RT_INTERFACE_KERNEL) == 0) return &kernel;
  return &capture;
}

}  // namespace

RT_PLUGIN_EXPORT rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                           const rt_plugin** result, rt_error* error) {
  if (misbehaving::misbehaves("plugin.entry")) return misbehaving::act<rt_status>();
  const rt_plugin* made = nullptr;
  const rt_status status = simulated_entry(host, negotiation, &made, error);
  if (status != RT_OK) return status;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  good<rt_plugin> = made;
  keep(*made, RT_INTERFACE_DEVICE, device);
  keep(*made, RT_INTERFACE_KERNEL, kernel);
  keep(*made, RT_INTERFACE_CAPTURE, capture);
  wrap_device();
  wrap_kernel_and_capture();
  rt_plugin& plugin = instances.emplace_back(*made);
  MISBEHAVE(plugin, "plugin", options);
  MISBEHAVE(plugin, "plugin", shutdown);
  plugin.get_interface = get_interface;
  *result = &plugin;
  return RT_OK;
}
