// Looks at plugins from child processes, so that one that hangs, ends its process or writes where
// it should not cannot do that to this one.
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

// For all that a plugin is asked before it is used: to be loaded, to start its vendor's driver and
// to list its devices. Drivers of machines with many GPUs take seconds for that.
constexpr std::chrono::milliseconds kProbeDeadline{20'000};

// plugin_probe: <prefix>/libexec/runtime/plugin_probe.
struct ProbeOptions {
  std::filesystem::path program;
  bool states = false;  // PluginDescription::states
  std::chrono::milliseconds deadline = kProbeDeadline;
};

// One of the two.
struct ProbeResult {
  std::optional<PluginDescription> description;
  std::string reason;  // why the plugin is rejected
};

// One result for each file, in their order. The children run beside each other, each with the
// deadline counted from its own start; all have ended at the return. Throws Error
// (RT_ERROR_UNAVAILABLE) when plugin_probe itself cannot be started, or is of another build.
std::vector<ProbeResult> probe(const std::vector<CheckedFile>& files, const ProbeOptions& options);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_PROBE_H_
