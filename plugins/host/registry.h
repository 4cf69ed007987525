// Finds plugins, probes them in child processes, opens those that are used, and remembers why the
// others were rejected.
#ifndef PLUGINS_HOST_REGISTRY_H_
#define PLUGINS_HOST_REGISTRY_H_

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/host/description.h"
#include "plugins/host/plugin.h"
#include "plugins/host/probe.h"

namespace plugins::host {

// The places that are searched for plugins, in this order. The current folder and LD_LIBRARY_PATH
// are never searched.
struct SearchPath {
  std::vector<std::filesystem::path>
      configured;  // [plugins] path of the configuration: folders or files, absolute
  std::vector<std::filesystem::path>
      environment;                 // RUNTIME_PLUGIN_PATH; relative entries are rejected
  std::filesystem::path built_in;  // <folder of the executable>/../lib/runtime/plugins
  // Path of the plugin_probe of the build that this program was linked from; empty if unknown. If
  // it is empty or does not exist, plugin_probe is searched for in <folder of the
  // executable>/../libexec/runtime and, for every configured or environment folder
  // <prefix>/lib/runtime/plugins, in <prefix>/libexec/runtime.
  std::filesystem::path probe;

  // The environment and built-in folder of this process, plus `configured`.
  static SearchPath standard(std::vector<std::filesystem::path> configured = {});
};

// A library or folder that was passed over.
struct Rejection {
  std::filesystem::path path;
  std::string reason;  // made printable already
};

// How plugins are probed, see ProbeOptions, and opened.
struct RegistryOptions {
  bool states = false;
  std::chrono::milliseconds deadline = kProbeDeadline;
  std::shared_ptr<Interposer> interposer = nullptr;  // sees every call to the plugins
};

// The plugins of a search path. Thread-safe. If two plugins have the same name, the first wins and
// the second is a rejection.
class Registry {
 public:
  // Probes every *.so of the search path in a child process of its own; loads none into this
  // process. A bad plugin becomes a rejection. Throws Error (RT_ERROR_UNAVAILABLE) if there are
  // plugins and plugin_probe was not found, is not trusted, or does not start.
  Registry(const SearchPath& path, const HostServices& services,
           const RegistryOptions& options = {});

  const std::vector<PluginDescription>& plugins() const { return plugins_; }
  const std::vector<Rejection>& rejections() const { return rejections_; }

  // Logs through HostServices::log which libraries were passed over, and why.
  void log_rejections() const;

  // Returns the plugin of that name. Throws Error (RT_ERROR_UNAVAILABLE) with the known names, the
  // nearest one, the rejections and the folders searched. The reference lives as long as the
  // registry.
  const PluginDescription& require(const std::string& name) const;

  // Loads the plugin of that name into this process, once: later calls return the same instance,
  // which lives until both the registry and all users have released it. Throws what require() and
  // Plugin::load throw.
  std::shared_ptr<Plugin> open(const std::string& name) const;

  // Throws Error with the first fault that the interposer has found, if there is one; call it when
  // a run is over. A fault in a call that cannot fail may have reached nobody.
  void throw_findings() const;

 private:
  void add(const std::filesystem::path& path, ProbeResult result);

  std::vector<PluginDescription> plugins_;
  std::vector<Rejection> rejections_;
  SearchPath path_;
  HostServices services_;
  std::shared_ptr<Interposer> interposer_;  // nullptr: the host calls the plugins themselves
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<Plugin>> opened_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_REGISTRY_H_
