// Names the device of each slot, and tells whether a lost one is back.
#include "runtime/launch/slot_devices.h"

#include <algorithm>
#include <exception>

#include "plugins/host/nearest.h"
#include "runtime/launch/open_device.h"

namespace runtime::launch {

namespace {

using plugins::host::DeviceInfo;
using plugins::host::Registry;

// The device by the name that it keeps when another device of the machine is gone, if it has one.
std::string name_of(const DeviceInfo& device, const Registry& registry) {
  const std::string& id = device.properties.stable_id;
  const std::vector<DeviceInfo>& all = registry.require(device.plugin).devices;
  const auto same = std::count_if(all.begin(), all.end(), [&](const DeviceInfo& other) {
    return other.properties.stable_id == id;
  });
  const bool keeps = !id.empty() && all.size() > 1 && same == 1;
  return device.plugin + ":" + (keeps ? id : std::to_string(device.index));
}

// A setting of a list, which has an item, as an argument of --set.
std::string list_setting(const std::string& key, const std::vector<std::string>& items) {
  return key + "=[" + plugins::host::join_names(items) + "]";
}

}  // namespace

SlotDevices::SlotDevices(const config::Config& config, const plugins::host::HostServices& services,
                         const Registry& registry)
    : config_(config), services_(services) {
  for (int slot = 0; slot < config.launch.ranks; ++slot)
    devices_.push_back(name_of(choose_device(config, registry, slot, nullptr), registry));
}

std::vector<std::string> SlotDevices::arguments(const std::vector<int>& slots) const {
  std::vector<std::string> settings = {"launch.ranks=" + std::to_string(slots.size())};
  std::vector<std::string> devices;
  if (config_.device.index.size() > 1) {
    for (const int slot : slots)
      devices.push_back(std::to_string(config_.device.index[static_cast<size_t>(slot)]));
    settings.push_back(list_setting("device.index", devices));
  } else if (config_.device.index.empty()) {
    for (const int slot : slots) devices.push_back('"' + devices_[static_cast<size_t>(slot)] + '"');
    settings.push_back(list_setting("launch.devices", devices));
  }
  if (!config_.parallelism.search) settings.emplace_back("parallelism.data=-1");
  std::vector<std::string> arguments;
  for (std::string& setting : settings) {
    arguments.emplace_back("--set");
    arguments.push_back(std::move(setting));
  }
  return arguments;
}

bool SlotDevices::is_back(int slot) const {
  try {
    const Registry registry(plugin_search_path(config_), services_);
    config::Config one = config_;
    one.device.index.clear();
    one.launch.devices = {devices_[static_cast<size_t>(slot)]};
    return choose_device(one, registry, 0, nullptr).usable();
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace runtime::launch
