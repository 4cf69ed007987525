// Compares the tables of plugins in a configuration with the plugins that are installed.
#ifndef RUNTIME_LAUNCH_PLUGIN_TABLES_H_
#define RUNTIME_LAUNCH_PLUGIN_TABLES_H_

#include <string>
#include <vector>

#include "plugins/host/description.h"
#include "runtime/config/config.h"

namespace runtime::launch {

// Checks [device.<plugin>], [comm.<plugin>] and [dataset.<plugin>] against the keys that the
// plugins declare; it opens none of them. Throws ConfigurationError for a key that an installed
// plugin does not have in that section. Returns a sentence for each table whose plugin is not among
// `plugins`: its keys have no effect here, but may have on another machine.
std::vector<std::string> check_plugin_tables(
    const config::Config& config, const std::vector<plugins::host::PluginDescription>& plugins);

// Returns the section in which the plugin's own keys are given: "device" or "comm"; "" for a plugin
// that is neither a device nor a communicator, whose keys nothing reads.
std::string section_of_keys(const plugins::host::PluginDescription& plugin);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_PLUGIN_TABLES_H_
