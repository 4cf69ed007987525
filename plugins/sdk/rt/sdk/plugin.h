// Helpers for the entry of a plugin.
#ifndef RT_SDK_PLUGIN_H_
#define RT_SDK_PLUGIN_H_

#include <cstring>

#include "rt/capture.h"
#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/plugin.h"
#include "rt/sdk/error.h"
#include "rt/sdk/structs.h"

namespace rt::sdk {

// Implements rt_plugin.options for a plugin without options.
inline const rt_option_spec* const* no_options(void*, uint32_t* count) {
  *count = 0;
  return nullptr;
}

// Writes the version of the contract that this plugin was compiled with. Throws Error
// (RT_ERROR_VERSION) unless the host speaks its major version. `plugin` is the plugin's name, for
// the message.
inline void negotiate(rt_negotiation* negotiation, const char* plugin) {
  check_size(negotiation);
  rt_negotiation answer{};
  std::memcpy(&answer, negotiation, RT_NEGOTIATION_SIZE_V1);
  answer.plugin_major = RT_ABI_MAJOR;
  answer.plugin_minor = RT_ABI_MINOR;
  write_output(negotiation, answer);
  if (answer.host_major_min <= RT_ABI_MAJOR && RT_ABI_MAJOR <= answer.host_major_max) return;
  throw Error(
      RT_ERROR_VERSION,
      format("plugin %s was built for version %d.%d of the contract, the host speaks %u to "
             "%u; rebuild one of them",
             plugin, RT_ABI_MAJOR, RT_ABI_MINOR, answer.host_major_min, answer.host_major_max),
      RT_SCOPE_PROCESS);
}

// A plugin for devices describes itself with the texts of rt_plugin, its two tables, and what it
// has besides.
struct DevicePlugin {
  // The texts of rt_plugin, which live as long as the plugin.
  const char* name;
  const char* vendor;
  const char* version;
  const char* build_id;
  const char* description;
  const rt_device_api* device;                        // made by device_table(), for example
  const rt_kernel_api* kernel;                        // made by kernel_table(), for example
  const rt_capture_api* capture = nullptr;            // nullptr: the device records nothing
  decltype(rt_plugin::options) options = no_options;  // the keys of [device.<plugin>]
};

// One instance of such a plugin. rt_plugin.self points to it, and `state` is what its devices
// share.
template <typename State>
struct DeviceInstance {
  rt_plugin view{};               // what the host sees
  DevicePlugin what{};            // what make_device_plugin() was given
  const rt_host* host = nullptr;  // host->log(...) for messages
  State state{};                  // made with the instance
};

// The state of the instance that the first argument of rt_device_api.count, properties and open is.
template <typename State>
State& state_of(void* self) {
  return static_cast<DeviceInstance<State>*>(self)->state;
}

// Implements rt_plugin_entry: negotiates the version and makes an instance, which
// rt_plugin.shutdown deletes.
template <typename State>
rt_status make_device_plugin(const DevicePlugin& what, const rt_host* host,
                             rt_negotiation* negotiation, const rt_plugin** plugin,
                             rt_error* error) {
  using Instance = DeviceInstance<State>;
  return guard(error, [&] {
    negotiate(negotiation, what.name);
    auto* const instance = new Instance;
    instance->what = what;
    instance->host = host;
    instance->view = {sizeof(rt_plugin),
                      0,
                      instance,
                      what.name,
                      what.vendor,
                      what.version,
                      what.build_id,
                      what.description,
                      nullptr,
                      what.options,
                      nullptr};
    instance->view.get_interface = [](void* self, const char* name,
                                      uint32_t version) -> const void* {
      const DevicePlugin& tables = static_cast<Instance*>(self)->what;
      const auto asked = [&](const char* known, uint32_t its) {
        return std::strcmp(name, known) == 0 && version == its;
      };
      if (asked(RT_INTERFACE_DEVICE, RT_DEVICE_API_VERSION)) return tables.device;
      if (asked(RT_INTERFACE_KERNEL, RT_KERNEL_API_VERSION)) return tables.kernel;
      return asked(RT_INTERFACE_CAPTURE, RT_CAPTURE_API_VERSION) ? tables.capture : nullptr;
    };
    instance->view.shutdown = [](void* self) { delete static_cast<Instance*>(self); };
    *plugin = &instance->view;
  });
}

}  // namespace rt::sdk

#endif  // RT_SDK_PLUGIN_H_
