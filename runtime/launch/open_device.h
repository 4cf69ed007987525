// Chooses and opens the device of a rank, as the configuration says.
#ifndef RUNTIME_LAUNCH_OPEN_DEVICE_H_
#define RUNTIME_LAUNCH_OPEN_DEVICE_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "plugins/host/registry.h"
#include "runtime/config/config.h"

namespace runtime::launch {

// The search path for plugins: [plugins] and the environment.
plugins::host::SearchPath plugin_search_path(const config::Config& config);

// The plugins that are found there, opened as [plugins] says. Throws what check_plugin_tables()
// throws. After use, throw_findings() of the
// result throws the first fault that plugins.validate has found in a call that cannot fail.
std::shared_ptr<plugins::host::Registry> open_registry(const config::Config& config,
                                                       const plugins::host::HostServices& services);

// The plugins with devices in the order in which backend = "auto" tries them: by the highest
// priority of their usable devices, and in the order given if that is the same. A plugin without
// any device comes first, so that it is among those that were passed over.
std::vector<const plugins::host::PluginDescription*> by_priority(
    const std::vector<plugins::host::PluginDescription>& plugins);

// The device of [device], or that of launch.devices, for a rank on this machine. choose_device
// neither opens it nor checks whether it is usable. With backend = "auto" it is the usable device
// with the highest priority (rt_device_properties.priority), and `choice` (may be null) gets a line
// that names it and the plugins passed over, without the reasons, which an error has. The choice is
// made from descriptions; open_device loads only the plugin of the chosen device. Throws
// plugins::host::Error, or ConfigurationError for a device that the configuration names wrongly.
plugins::host::DeviceInfo choose_device(const config::Config& config,
                                        const plugins::host::Registry& registry, int local_rank,
                                        std::string* choice);
std::shared_ptr<plugins::host::Device> open_device(const config::Config& config,
                                                   const plugins::host::Registry& registry,
                                                   int local_rank, std::string* choice);

// The device of device.host_fallback beside `device`, one for each call, opened with the options of
// [device.<plugin>]; null if the key is not set. Throws ConfigurationError if the plugin is that of
// `device`, DeviceError if the host cannot access the memory of its device, and what open_device()
// throws.
std::shared_ptr<plugins::host::Device> open_fallback(const config::Config& config,
                                                     const plugins::host::Registry& registry,
                                                     const plugins::host::Device& device,
                                                     int local_rank);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_OPEN_DEVICE_H_
