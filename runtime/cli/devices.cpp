// The command devices: what each plugin's devices are, compute and have free.
#include <fmt/format.h>

#include "plugins/host/nearest.h"
#include "plugins/host/registry.h"
#include "plugins/host/text.h"
#include "runtime/cli/commands.h"
#include "runtime/terminal/text.h"

namespace runtime::cli {

namespace {

using plugins::host::DeviceInfo;
using plugins::host::DeviceState;
using plugins::host::PluginDescription;

constexpr size_t kIndentOfDevices = 26;  // of what follows the id and "usable"

// Returns ", 70.1 GiB free, 87% busy, 61 C, 212 W", without the numbers that are not known.
std::string state_text(const DeviceState& state) {
  if (!state.error.empty()) return ", cannot be opened: " + state.error;
  const rt_utilisation& u = state.utilisation;
  std::string text =
      fmt::format(", {:.1f} GiB free", static_cast<double>(state.memory.free_bytes) / (1 << 30));
  if (u.compute_percent >= 0) text += fmt::format(", {}% busy", u.compute_percent);
  if (u.temperature_celsius >= 0) text += fmt::format(", {} C", u.temperature_celsius);
  if (u.power_milliwatts >= 0) text += fmt::format(", {} W", (u.power_milliwatts + 500) / 1000);
  return text;
}

// Returns, for example, ", computes in float32, float16"; "" if there is no type in the mask.
std::string types_text(const char* what, uint64_t dtypes) {
  std::vector<std::string> names;
  for (rt_dtype dtype = RT_FLOAT32; dtype <= RT_INT8; ++dtype)
    if ((dtypes & RT_DTYPE_BIT(dtype)) != 0) names.push_back(plugins::host::dtype_name(dtype));
  return names.empty() ? "" : what + plugins::host::join_names(names);
}

void print_device(const PluginDescription& plugin, size_t index) {
  const DeviceInfo& d = plugin.devices[index];
  std::string text = fmt::format("{:<14} {:<10} {}", d.id(), d.usable() ? "usable" : "unusable",
                                 d.properties.name);
  if (d.properties.memory_bytes > 0)
    text += fmt::format(", {:.1f} GiB", static_cast<double>(d.properties.memory_bytes) / (1 << 30));
  if (d.properties.largest_buffer > 0)
    text += fmt::format(" in buffers of at most {:.4g} MiB",
                        static_cast<double>(d.properties.largest_buffer) / (1 << 20));
  if (d.properties.threads > 0)
    text +=
        fmt::format(", {} thread{}", d.properties.threads, d.properties.threads == 1 ? "" : "s");
  if (plugin.devices.size() > 1 && d.properties.stable_id[0] != '\0')
    text += fmt::format(", stable id {}", d.properties.stable_id);
  if (!d.usable()) text += fmt::format(" - {}", d.properties.unusable_reason);
  if (index < plugin.states.size() && plugin.states[index])
    text += state_text(*plugin.states[index]);
  if (d.usable()) {
    const uint64_t computes = d.properties.compute_dtypes;
    text += types_text(", computes in ", computes) +
            types_text(", also stores ", d.properties.storage_dtypes & ~computes);
  }
  terminal::print_folded(text + fmt::format(", plugin {} {}\n", plugin.name, plugin.version),
                         kIndentOfDevices);
}

}  // namespace

void list_devices(const Folders& folders) {
  const plugins::host::Registry registry(
      plugins::host::SearchPath::standard({folders.begin(), folders.end()}), host_services(),
      {.states = true});
  for (const PluginDescription& plugin : registry.plugins()) {
    if (!plugin.offers(RT_INTERFACE_DEVICE)) continue;
    if (plugin.devices.empty())
      terminal::print_folded(
          fmt::format("{:<14} {:<10} {}\n", plugin.name, "no device", plugin.description),
          kIndentOfDevices);
    for (size_t i = 0; i < plugin.devices.size(); ++i) print_device(plugin, i);
  }
  print_rejections(registry);
}

}  // namespace runtime::cli
