// Resolves "auto" and lists of devices for a rank, opens the device and the fallback beside it.
#include "runtime/launch/open_device.h"

#include <algorithm>

#include "plugins/host/error.h"
#include "plugins/host/limits.h"
#include "plugins/validate/validation.h"
#include "runtime/error.h"
#include "runtime/launch/device_watch.h"
#include "runtime/launch/plugin_tables.h"

namespace runtime::launch {

namespace {

using plugins::host::DeviceInfo;
using plugins::host::PluginDescription;
using plugins::host::Registry;

// The devices that "auto" may take, those with the highest priority: of the usable ones if there
// are any, else of all.
std::vector<DeviceInfo> first_choice(const std::vector<DeviceInfo>& devices) {
  const bool usable =
      std::any_of(devices.begin(), devices.end(), [](const DeviceInfo& d) { return d.usable(); });
  std::vector<DeviceInfo> best;
  for (const DeviceInfo& d : devices) {
    if (usable && !d.usable()) continue;
    if (!best.empty() && d.properties.priority < best[0].properties.priority) continue;
    if (!best.empty() && d.properties.priority > best[0].properties.priority) best.clear();
    best.push_back(d);
  }
  return best;
}

constexpr int kOwnIndex = -1;

// The index of a device; for kOwnIndex the ranks of a machine take the usable devices in turn.
int resolve_index(const std::vector<DeviceInfo>& devices, int index, int local_rank) {
  if (index != kOwnIndex) return index;
  std::vector<int> usable;
  for (const DeviceInfo& device : devices) {
    if (device.usable()) usable.push_back(device.index);
  }
  return usable.empty() ? 0 : usable[local_rank % usable.size()];
}

// Returns what a run says of the plugins that were passed over. Every run says it, so the reasons
// are left to the command that is about them.
std::string not_usable(const std::string& names) {
  return names.empty() ? "" : "; not usable here: " + names + " (runtime devices says why)";
}

// A plugin and the index of one of its devices.
using Choice = std::pair<const PluginDescription*, int>;

Choice choose_backend(const Registry& registry, int wanted, int local_rank, std::string* choice) {
  std::string passed, names;
  for (const PluginDescription* plugin : by_priority(registry.plugins())) {
    const std::vector<DeviceInfo>& devices = plugin->devices;
    const int index =
        resolve_index(wanted == kOwnIndex ? first_choice(devices) : devices, wanted, local_rank);
    if (index < static_cast<int>(devices.size()) && devices[index].usable()) {
      if (choice != nullptr)
        *choice = "device.backend = \"auto\" takes " + devices[index].id() + not_usable(names);
      return {plugin, index};
    }
    const std::string reason =
        devices.empty()
            ? "no device"
            : devices[std::min<size_t>(index, devices.size() - 1)].properties.unusable_reason;
    names += (names.empty() ? "" : ", ") + plugin->name;
    passed += "; not " + plugin->name + ": " + (reason.empty() ? "no such index" : reason);
  }
  for (const auto& rejection : registry.rejections())
    passed += "; rejected: " + rejection.path.string() + ": " + rejection.reason;
  throw plugins::host::Error(RT_ERROR_UNAVAILABLE,
                             "device.backend = \"auto\": no plugin has a usable device" + passed +
                                 "; `runtime devices` lists what was found and why not");
}

// The item of a list for a rank on this machine.
template <class Item>
const Item& item_of_rank(const std::vector<Item>& items, int local_rank, const char* key) {
  if (local_rank < static_cast<int>(items.size())) return items[local_rank];
  throw ConfigurationError(std::string(key) + " has " + std::to_string(items.size()) +
                           " items, but there is a rank " + std::to_string(local_rank) +
                           " on this machine; give one for each rank, or start fewer ranks");
}

ConfigurationError no_such_device(const std::string& text) {
  return ConfigurationError("launch.devices: \"" + text +
                            "\" is no device; expected backend, backend:index or backend:stable "
                            "id, as `runtime devices` lists them");
}

// What the configuration says about the device of a rank.
struct Wanted {
  std::string backend;
  int index = kOwnIndex;
  std::string stable_id = {};  // not "": given instead of the index
};

Wanted device_of_rank(const config::Config& config, int local_rank) {
  const config::Device& device = config.device;
  if (config.launch.devices.empty()) {
    if (device.index.size() <= 1)
      return {device.backend, device.index.empty() ? kOwnIndex : static_cast<int>(device.index[0])};
    return {device.backend,
            static_cast<int>(item_of_rank(device.index, local_rank, "device.index"))};
  }
  const std::string& text = item_of_rank(config.launch.devices, local_rank, "launch.devices");
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {text, 0};
  const std::string device_text = text.substr(colon + 1);
  if (device_text.empty()) throw no_such_device(text);
  const bool is_index =
      device_text.size() <= 4 && device_text.find_first_not_of("0123456789") == std::string::npos;
  if (is_index) return {text.substr(0, colon), std::stoi(device_text)};
  return {text.substr(0, colon), kOwnIndex, device_text};
}

int index_of(const PluginDescription& plugin, const Wanted& wanted, int local_rank) {
  if (wanted.stable_id.empty()) return resolve_index(plugin.devices, wanted.index, local_rank);
  for (const DeviceInfo& device : plugin.devices) {
    if (device.properties.stable_id == wanted.stable_id) return device.index;
  }
  throw no_such_device(wanted.backend + ":" + wanted.stable_id);
}

Choice find_device(const config::Config& config, const Registry& registry, int local_rank,
                   std::string* choice) {
  for (const std::string& name : config.plugins.require) registry.require(name);
  const Wanted wanted = device_of_rank(config, local_rank);
  if (wanted.backend == "auto") return choose_backend(registry, wanted.index, local_rank, choice);
  const PluginDescription& plugin = registry.require(wanted.backend);
  return {&plugin, index_of(plugin, wanted, local_rank)};
}

std::shared_ptr<plugins::host::Device> open(const config::Config& config, const Registry& registry,
                                            const PluginDescription& plugin, int index) {
  plugins::host::DeviceOptions options;
  options.threads = config.device.threads;
  if (config.debug.deterministic) options.threads = std::max(1, options.threads);
  if (const auto it = config.device.options.find(plugin.name); it != config.device.options.end())
    options.options = it->second;
  auto device = plugins::host::Device::open(registry.open(plugin.name), index, options);
  watch_device(*device, config.device.timeout_s);
  return device;
}

}  // namespace

std::vector<const PluginDescription*> by_priority(const std::vector<PluginDescription>& plugins) {
  std::vector<const PluginDescription*> order;
  for (const PluginDescription& p : plugins) {
    if (p.offers(RT_INTERFACE_DEVICE)) order.push_back(&p);
  }
  const auto priority = [](const PluginDescription* p) {
    const std::vector<DeviceInfo> best = first_choice(p->devices);
    return best.empty() ? plugins::host::kMaxPriority + 1 : best[0].properties.priority;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto* a, const auto* b) { return priority(a) > priority(b); });
  return order;
}

plugins::host::SearchPath plugin_search_path(const config::Config& config) {
  return plugins::host::SearchPath::standard(
      {config.plugins.path.begin(), config.plugins.path.end()});
}

std::shared_ptr<Registry> open_registry(const config::Config& config,
                                        const plugins::host::HostServices& services) {
  plugins::host::RegistryOptions options;
  if (config.plugins.validate) {
    options.interposer =
        std::make_shared<plugins::validate::Validation>([log = services.log](const auto& text) {
          if (log) log(RT_LOG_ERROR, "plugins", text);
        });
  }
  auto registry = std::make_shared<Registry>(plugin_search_path(config), services, options);
  check_plugin_tables(config, registry->plugins());
  return registry;
}

DeviceInfo choose_device(const config::Config& config, const Registry& registry, int local_rank,
                         std::string* choice) {
  const auto [plugin, index] = find_device(config, registry, local_rank, choice);
  if (index < static_cast<int>(plugin->devices.size())) return plugin->devices[index];
  return {plugin->name, index, {}};
}

std::shared_ptr<plugins::host::Device> open_device(const config::Config& config,
                                                   const Registry& registry, int local_rank,
                                                   std::string* choice) {
  const auto [plugin, index] = find_device(config, registry, local_rank, choice);
  return open(config, registry, *plugin, index);
}

std::shared_ptr<plugins::host::Device> open_fallback(const config::Config& config,
                                                     const Registry& registry,
                                                     const plugins::host::Device& device,
                                                     int local_rank) {
  const std::string& name = config.device.host_fallback;
  if (name.empty()) return nullptr;
  const std::string key = "device.host_fallback = \"" + name + "\": ";
  const PluginDescription& plugin = registry.require(name);
  if (name == device.plugin().name()) {
    throw ConfigurationError(key + "the run computes on " + device.id() +
                             ", which cannot stand in for itself; expected another plugin, or \"\" "
                             "for none");
  }
  auto fallback =
      open(config, registry, plugin, resolve_index(plugin.devices, kOwnIndex, local_rank));
  if (fallback->host_memory()) return fallback;
  throw DeviceError(
      key + "the host cannot access the memory of " + fallback->id() +
      "; expected a plugin whose devices compute in host memory (RT_DEVICE_HOST_MEMORY; "
      "runtime devices lists what is here)");
}

}  // namespace runtime::launch
