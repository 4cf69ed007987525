#include <fmt/format.h>

#include "plugins/host/device.h"
#include "runtime/cli/commands.h"

namespace runtime::cli {

namespace {

using plugins::host::DeviceInfo;

void print_device(const DeviceInfo& d) {
  fmt::print("{:<14} {:<10} {}", d.id(), d.usable() ? "usable" : "unusable", d.properties.name);
  if (d.properties.memory_bytes > 0)
    fmt::print(", {:.1f} GiB", static_cast<double>(d.properties.memory_bytes) / (1 << 30));
  if (!d.usable()) fmt::print(" - {}", d.properties.unusable_reason);
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
    for (const DeviceInfo& d : devices) print_device(d);
  }
  for (const auto& rejection : registry.rejections())
    fmt::print("rejected: {}: {}\n", rejection.path.string(), rejection.reason);
}

}  // namespace runtime::cli
