// Opens the example plugin for OpenCL.
#ifndef TESTS_PLUGINS_OPENCL_SUPPORT_H_
#define TESTS_PLUGINS_OPENCL_SUPPORT_H_

#include <cstdlib>
#include <memory>
#include <string>

#include "plugins/host/device.h"

namespace opencl_test {

// Device 0; nullptr, with the reason, if this machine has no usable device for OpenCL.
inline std::shared_ptr<plugins::host::Device> open(std::string* reason) {
  setenv("POCL_CACHE_DIR", POCL_CACHE, 0);  // before the loader of OpenCL starts PoCL
  const auto plugin = plugins::host::Plugin::load(OPENCL_PLUGIN, {});
  const auto devices = plugins::host::list_devices(*plugin);
  if ((devices.at(0).properties.flags & RT_DEVICE_USABLE) != 0)
    return plugins::host::Device::open(plugin, 0, {});
  *reason = devices.at(0).properties.unusable_reason;
  return nullptr;
}

}  // namespace opencl_test

#endif  // TESTS_PLUGINS_OPENCL_SUPPORT_H_
