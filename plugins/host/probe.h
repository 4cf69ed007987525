// Probes plugins in child processes, so that a plugin that hangs, ends its process or writes to
// wrong places cannot harm this process.
#ifndef PLUGINS_HOST_PROBE_H_
#define PLUGINS_HOST_PROBE_H_

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/description.h"
#include "plugins/host/trust.h"

namespace plugins::host {

// Deadline of one probe: loading the library, starting the vendor's driver and listing the devices.
// Drivers take seconds for that on machines with many GPUs.
constexpr std::chrono::milliseconds kProbeDeadline{20'000};

// How to probe. `program` is the path of plugin_probe: <prefix>/libexec/runtime/plugin_probe.
struct ProbeOptions {
  std::filesystem::path program;
  bool states = false;  // whether to fill PluginDescription::states
  std::chrono::milliseconds deadline = kProbeDeadline;
};

// Either the description or the reason is set.
struct ProbeResult {
  std::optional<PluginDescription> description;
  std::string reason;  // why the plugin is rejected
};

// Probes the files and returns one result for each, in the same order. Up to 32 children run at the
// same time; the deadline of each counts from its own start. All have ended when the function
// returns. Throws Error (RT_ERROR_UNAVAILABLE) if plugin_probe itself cannot be started or comes
// from another build.
std::vector<ProbeResult> probe(const std::vector<CheckedFile>& files, const ProbeOptions& options);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_PROBE_H_
