// All that the runtime has to know of a plugin before it opens it.
#ifndef PLUGINS_HOST_DESCRIPTION_H_
#define PLUGINS_HOST_DESCRIPTION_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/plugin.h"
#include "plugins/host/trust.h"

namespace plugins::host {

// What an opened device says of itself now.
struct DeviceState {
  rt_memory_info memory{};
  rt_utilisation utilisation{};
  std::string error;  // why it could not be opened or asked; "" if it was
};

// A value: copied out of the process in which the plugin was looked at.
struct PluginDescription {
  CheckedFile file;
  std::string name, vendor, version, build_id, description;
  std::vector<std::string> interfaces;  // RT_INTERFACE_*
  std::vector<Plugin::OptionSpec> options;
  std::vector<DeviceInfo> devices;  // usable or not
  // The state of each device, where states were asked for; nullopt: the device is unusable, or its
  // memory is the host's.
  std::vector<std::optional<DeviceState>> states;
  std::optional<rt_comm_properties> communicator;

  bool offers(std::string_view interface) const;
};

// Asks a plugin for everything but `file`. `begin` as in Plugin::load. With `states` the usable
// devices whose memory is not the host's are opened for a moment. Throws Error.
PluginDescription describe(const std::shared_ptr<Plugin>& plugin, bool states,
                           const std::function<void(const char*)>& begin);

// A description as bytes, for a process of the same build. `decode` believes nothing: it throws
// Error (RT_ERROR_INTERNAL) for bytes that are not exactly one description within the limits of
// limits.h. The file is not part of the bytes.
std::string encode(const PluginDescription& description);
PluginDescription decode(std::string_view bytes);

// Changes with the bytes that encode() makes.
std::string encoding_version();

}  // namespace plugins::host

#endif  // PLUGINS_HOST_DESCRIPTION_H_
