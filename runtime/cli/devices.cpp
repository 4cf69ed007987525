#include <fmt/format.h>

#include "plugins/host/device.h"
#include "plugins/host/error.h"
#include "runtime/cli/commands.h"

namespace runtime::cli {

namespace {

using plugins::host::DeviceInfo;

// ", 70.1 GiB free, 87% busy, 61 C, 212 W", with what is known. Devices with the host's memory are
// not opened for that.
std::string state_of(const std::shared_ptr<plugins::host::Plugin>& plugin, const DeviceInfo& d) {
  if (!d.usable() || (d.properties.flags & RT_DEVICE_HOST_MEMORY) != 0) return "";
  try {
    const auto device = plugins::host::Device::open(plugin, d.index);
    const rt_utilisation u = device->utilisation();
    std::string text = fmt::format(
        ", {:.1f} GiB free", static_cast<double>(device->memory_info().free_bytes) / (1 << 30));
    if (u.compute_percent >= 0) text += fmt::format(", {}% busy", u.compute_percent);
    if (u.temperature_celsius >= 0) text += fmt::format(", {} C", u.temperature_celsius);
    if (u.power_milliwatts >= 0) text += fmt::format(", {} W", (u.power_milliwatts + 500) / 1000);
    return text;
  } catch (const plugins::host::Error& error) {
    return std::string(", cannot be opened: ") + error.what();
  }
}

void print_device(const std::shared_ptr<plugins::host::Plugin>& plugin, const DeviceInfo& d) {
  fmt::print("{:<14} {:<10} {}", d.id(), d.usable() ? "usable" : "unusable", d.properties.name);
  if (d.properties.memory_bytes > 0)
    fmt::print(", {:.1f} GiB", static_cast<double>(d.properties.memory_bytes) / (1 << 30));
  if (!d.usable()) fmt::print(" - {}", d.properties.unusable_reason);
  fmt::print("{}", state_of(plugin, d));
  fmt::print("\n");
}

}  // namespace

void list_devices(const Folders& folders) {
  const plugins::host::Registry registry(
      plugins::host::SearchPath::standard({folders.begin(), folders.end()}), host_services());
  for (const auto& plugin : registry.plugins()) {
    if (plugin->device_api() == nullptr) continue;
    const std::vector<DeviceInfo> devices = plugins::host::list_devices(*plugin);
    if (devices.empty())
      fmt::print("{:<14} {:<10} {}\n", plugin->name(), "no device", plugin->description());
    for (const DeviceInfo& d : devices) print_device(plugin, d);
  }
  for (const auto& rejection : registry.rejections())
    fmt::print("rejected: {}: {}\n", rejection.path.string(), rejection.reason);
}

}  // namespace runtime::cli
