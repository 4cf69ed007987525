// Finds keys of plugins that nothing reads, and suggests the right key, section or plugin.
#include "runtime/launch/plugin_tables.h"

#include <algorithm>

#include "plugins/host/nearest.h"
#include "plugins/host/options.h"
#include "runtime/error.h"
#include "runtime/row_of.h"

namespace runtime::launch {

namespace {

using plugins::host::PluginDescription;
using Keys = std::vector<plugins::host::OptionSpec>;

Keys keys_of_device(const PluginDescription& plugin) {
  return plugin.offers(RT_INTERFACE_DEVICE) ? plugin.options : Keys{};
}

Keys keys_of_communicator(const PluginDescription& plugin) {
  return plugin.offers(RT_INTERFACE_COMMUNICATOR) ? plugin.options : Keys{};
}

Keys keys_of_formats(const PluginDescription& plugin) {
  Keys keys;
  for (const plugins::host::ReaderFormat& format : plugin.formats)
    keys.insert(keys.end(), format.options.begin(), format.options.end());
  return keys;
}

// A section with tables of plugins.
struct PluginSection {
  const char* name;
  config::PluginOptions (*tables)(const config::Config&);
  Keys (*keys)(const PluginDescription&);
};

constexpr PluginSection kSections[] = {
    {"device", [](const config::Config& c) { return c.device.options; }, keys_of_device},
    {"comm", [](const config::Config& c) { return c.comm.options; }, keys_of_communicator},
    {"dataset", [](const config::Config& c) { return c.dataset.options; }, keys_of_formats},
};

bool has_key(const Keys& keys, const std::string& name) {
  return std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return key.key == name; });
}

// Returns "; it has comm.<plugin>.<key>" if the key belongs to another section.
std::string other_section(const PluginDescription& plugin, const std::string& key) {
  for (const PluginSection& section : kSections) {
    if (has_key(section.keys(plugin), key))
      return std::string("; it has ") + section.name + "." + plugin.name + "." + key;
  }
  return "";
}

void check_table(const PluginSection& section, const PluginDescription& plugin,
                 const plugins::host::Options& options) {
  const Keys keys = section.keys(plugin);
  for (const auto& option : options) {
    const std::string fault =
        plugins::host::fault_of({option}, keys, std::string(section.name) + "." + plugin.name);
    if (!fault.empty()) throw ConfigurationError(fault + other_section(plugin, option.first));
  }
}

// The names of the plugins that have keys in a section.
std::vector<std::string> plugins_with_keys(const std::vector<PluginDescription>& plugins,
                                           const PluginSection& section) {
  std::vector<std::string> names;
  for (const PluginDescription& plugin : plugins)
    if (!section.keys(plugin).empty()) names.push_back(plugin.name);
  return names;
}

}  // namespace

std::vector<std::string> check_plugin_tables(const config::Config& config,
                                             const std::vector<PluginDescription>& plugins) {
  std::vector<std::string> unused;
  for (const PluginSection& section : kSections) {
    for (const auto& [name, options] : section.tables(config)) {
      if (const PluginDescription* const plugin = find_choice(plugins, name)) {
        check_table(section, *plugin, options);
      } else {
        unused.push_back("[" + std::string(section.name) + "." + name +
                         "] is not used: no plugin of that name is installed here" +
                         plugins::host::suggestion(name, plugins_with_keys(plugins, section)));
      }
    }
  }
  return unused;
}

std::string section_of_keys(const PluginDescription& plugin) {
  if (plugin.offers(RT_INTERFACE_DEVICE)) return "device";
  return plugin.offers(RT_INTERFACE_COMMUNICATOR) ? "comm" : "";
}

}  // namespace runtime::launch
