// Finds the communicator that reads this rank's device, and whether all ranks have found the same.
#include "runtime/launch/device_offers.h"

#include <exception>
#include <set>

#include "plugins/host/communicator.h"
#include "runtime/launch/open_device.h"
#include "runtime/step/ranks.h"
#include "runtime/system/host_name.h"

namespace runtime::launch {

std::string device_offer(const config::Config& config, const plugins::host::Registry& registry,
                         int local_rank, int world_size) {
  if (step::is_asynchronous(config, world_size)) return "";
  plugins::host::DeviceInfo device;
  try {
    device = choose_device(config, registry, local_rank, nullptr);
  } catch (const std::exception&) {
    return "";  // the error is reported when the device is opened
  }
  for (const auto& plugin : registry.plugins()) {
    if (device.usable() && plugin.communicator &&
        plugin.communicator->device_plugin == device.plugin)
      return plugin.name + " " + system::host_name() + " " + device.properties.stable_id;
  }
  return "";
}

std::string common_offer(const std::vector<std::string>& offers) {
  const auto name = [](const std::string& offer) { return offer.substr(0, offer.find(' ')); };
  for (const std::string& offer : offers) {
    if (offer.empty() || name(offer) != name(offers[0])) return "";
  }
  const std::set<std::string> devices(offers.begin(), offers.end());
  return devices.size() == offers.size() && !offers.empty() ? name(offers[0]) : "";
}

std::shared_ptr<plugins::host::Device> open_device_for(const plugins::host::Plugin& plugin,
                                                       const config::Config& config,
                                                       const plugins::host::Registry& registry,
                                                       int local_rank, std::string* choice) {
  const std::string reads = plugins::host::communicator_properties(plugin).device_plugin;
  if (reads.empty() || choose_device(config, registry, local_rank, nullptr).plugin != reads)
    return nullptr;
  return open_device(config, registry, local_rank, choice);
}

}  // namespace runtime::launch
