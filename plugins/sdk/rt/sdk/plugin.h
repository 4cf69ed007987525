// Helpers for the entry of a plugin.
#ifndef RT_SDK_PLUGIN_H_
#define RT_SDK_PLUGIN_H_

#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "rt/capture.h"
#include "rt/communicator.h"
#include "rt/device.h"
#include "rt/kernel.h"
#include "rt/native.h"
#include "rt/operation_set.h"
#include "rt/plugin.h"
#include "rt/reader.h"
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

// A description holds what a plugin tells of itself: the texts of rt_plugin, its tables, its keys.
struct PluginDescription {
  const char* name;  // [a-z][a-z0-9_]*
  const char* vendor;
  std::string version;
  std::string build_id;  // must change with every change of a kernel or layout
  const char* description;
  // The tables, which live as long as the plugin; nullptr: the plugin does not offer it.
  const rt_device_api* device = nullptr;              // made by device_table(), for example
  const rt_kernel_api* kernel = nullptr;              // made by kernel_table(), for example
  const rt_communicator_api* communicator = nullptr;  // made by communicator_table(), for example
  const rt_capture_api* capture = nullptr;
  const rt_native_api* native = nullptr;
  const rt_operations_api* operations = nullptr;
  const rt_reader_api* reader = nullptr;
  // The keys of the plugin's section of the configuration; they live as long as the plugin.
  std::span<const rt_option_spec* const> options = {};
};

// One instance of such a plugin. rt_plugin.self points to it, and `state` is what its devices or
// communicators share: State{const rt_host*} where that is possible, else State{}.
template <typename State>
struct PluginInstance {
  PluginInstance(PluginDescription description, const rt_host* caller)
      : what(std::move(description)), host(caller), state(make_state(caller)) {}

  const PluginDescription what;
  const rt_host* const host;  // host->log(...) for messages
  State state;
  rt_plugin view = {sizeof(rt_plugin),
                    0,
                    this,
                    what.name,
                    what.vendor,
                    what.version.c_str(),
                    what.build_id.c_str(),
                    what.description,
                    get_interface,
                    options,
                    shutdown};

 private:
  static State make_state(const rt_host* host) {
    if constexpr (requires { State{host}; }) {
      return State{host};
    } else {
      return State{};
    }
  }
  static const void* get_interface(void* self, const char* name, uint32_t version) {
    const PluginDescription& tables = static_cast<PluginInstance*>(self)->what;
    const void* found = nullptr;
    const auto offer = [&](const char* known, const auto* table) {
      if (table != nullptr && std::strcmp(name, known) == 0 && version == table->version)
        found = table;
    };
    offer(RT_INTERFACE_DEVICE, tables.device);
    offer(RT_INTERFACE_KERNEL, tables.kernel);
    offer(RT_INTERFACE_COMMUNICATOR, tables.communicator);
    offer(RT_INTERFACE_CAPTURE, tables.capture);
    offer(RT_INTERFACE_NATIVE, tables.native);
    offer(RT_INTERFACE_OPERATIONS, tables.operations);
    offer(RT_INTERFACE_READER, tables.reader);
    return found;
  }
  static const rt_option_spec* const* options(void* self, uint32_t* count) {
    const auto& specs = static_cast<PluginInstance*>(self)->what.options;
    *count = static_cast<uint32_t>(specs.size());
    return specs.data();
  }
  static void shutdown(void* self) { delete static_cast<PluginInstance*>(self); }
};

// The state of the instance that the first argument of many functions of the tables is.
template <typename State>
State& state_of(void* self) {
  return static_cast<PluginInstance<State>*>(self)->state;
}

// The state of a plugin whose tables have none.
struct NoState {};

// Implements rt_plugin_entry: negotiates the version and makes an instance, which
// rt_plugin.shutdown deletes. `describe` returns the PluginDescription, and may throw.
template <typename State = NoState, typename Describe>
rt_status make_plugin(Describe&& describe, const rt_host* host, rt_negotiation* negotiation,
                      const rt_plugin** plugin, rt_error* error) {
  return guard(error, [&] {
    PluginDescription what = describe();
    negotiate(negotiation, what.name);
    *plugin = &(new PluginInstance<State>(std::move(what), host))->view;
  });
}

}  // namespace rt::sdk

#endif  // RT_SDK_PLUGIN_H_
