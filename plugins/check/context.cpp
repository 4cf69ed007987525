// Loads the plugin under test, its device and the reference when a check first asks for them.
#include "plugins/check/context.h"

#include <malloc.h>

namespace plugins::check {

std::shared_ptr<host::Plugin> Context::plugin() {
  if (!plugin_) plugin_ = host::Plugin::load(setup_.library, {});
  return plugin_;
}

const rt_device_api& Context::device_api() {
  const rt_device_api* const api = plugin()->device_api();
  if (api == nullptr) throw Skip("the plugin offers no devices (rt.device)");
  return *api;
}

const rt_kernel_api& Context::kernel_api() {
  device_api();
  const rt_kernel_api* const api = plugin()->kernel_api();
  if (api == nullptr) throw Skip("the plugin offers no kernels (rt.kernel)");
  return *api;
}

std::shared_ptr<host::Device> Context::device() {
  if (!device_) {
    device_api();
    const auto devices = host::list_devices(*plugin());
    if (devices.empty()) throw Skip("the plugin lists no devices");
    const auto index = static_cast<size_t>(setup_.device);
    if (index < devices.size() && !devices[index].usable())
      throw Skip(devices[index].id() + kUnusable + devices[index].properties.unusable_reason);
    device_ = host::Device::open(plugin(), setup_.device, {0, setup_.options});
  }
  return device_;
}

std::shared_ptr<host::Device> Context::reference() {
  if (!reference_) reference_ = host::Device::open(host::Plugin::load(setup_.reference, {}), 0, {});
  return reference_;
}

int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace plugins::check
