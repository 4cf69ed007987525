// What the runtime knows of a plugin that it has not loaded.
#ifndef PLUGINS_HOST_DESCRIPTION_H_
#define PLUGINS_HOST_DESCRIPTION_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/plugin.h"
#include "plugins/host/reader.h"
#include "plugins/host/trust.h"

namespace plugins::host {

// The state of a device at the moment it was asked.
struct DeviceState {
  rt_memory_info memory{};
  rt_utilisation utilisation{};
  std::string error;  // why the device could not be opened or asked; "" if it could
};

// The facts about a plugin, copied from the child process that probed it.
struct PluginDescription {
  CheckedFile file;
  std::string name, vendor, version, build_id, description;
  uint32_t minor = 0;                   // Plugin::minor
  std::vector<std::string> interfaces;  // RT_INTERFACE_*
  std::vector<Plugin::OptionSpec> options;
  std::vector<OperationSpec> operations;  // that the plugin brings
  std::vector<DeviceInfo> devices;        // also the unusable ones
  // The state of each device, if states were asked for, else empty. nullopt: the device is
  // unusable, or its memory is host memory.
  std::vector<std::optional<DeviceState>> states;
  std::optional<rt_comm_properties> communicator;
  std::vector<ReaderFormat> formats;  // of data sets

  // Whether the plugin offers the interface RT_INTERFACE_*.
  bool offers(std::string_view interface) const;
};

// Reads everything but `file` from a loaded plugin. `begin` is called with the name of each step,
// as in Plugin::load. If `states` is true, usable devices that do not use host memory are opened
// for a moment. Throws Error.
PluginDescription describe(const std::shared_ptr<Plugin>& plugin, bool states,
                           const std::function<void(const char*)>& begin);

// Converts a description to bytes for a process of the same build, and back. The bytes do not hold
// `file`. `decode` trusts nothing: it throws Error (RT_ERROR_INTERNAL) unless the bytes are exactly
// one description within the limits of limits.h.
std::string encode(const PluginDescription& description);
PluginDescription decode(std::string_view bytes);

// Changes whenever the format of encode() changes.
std::string encoding_version();

}  // namespace plugins::host

#endif  // PLUGINS_HOST_DESCRIPTION_H_
