// Finds plugins, looks at them from outside, opens those that are used, remembers why the others
// were rejected.
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

// Where plugins are looked for, in this order; the current folder and LD_LIBRARY_PATH never are.
struct SearchPath {
  std::vector<std::filesystem::path>
      configured;  // [plugins] path of the configuration: folders or files, absolute
  std::vector<std::filesystem::path>
      environment;                 // RUNTIME_PLUGIN_PATH; relative entries are rejected
  std::filesystem::path built_in;  // <folder of the executable>/../lib/runtime/plugins
  // plugin_probe of the build that this program was linked from, if it knows that place. Otherwise
  // it is looked for in <folder of the executable>/../libexec/runtime and, beside every folder
  // <prefix>/lib/runtime/plugins above, in <prefix>/libexec/runtime.
  std::filesystem::path probe;

  // Environment and built-in folder of this process, plus `configured`.
  static SearchPath standard(std::vector<std::filesystem::path> configured = {});
};

struct Rejection {
  std::filesystem::path path;
  std::string reason;  // printable
};

// How plugins are looked at; see ProbeOptions.
struct RegistryOptions {
  bool states = false;
  std::chrono::milliseconds deadline = kProbeDeadline;
};

// Thread-safe. A plugin name found twice: the first wins, the second is a rejection.
class Registry {
 public:
  // Looks at every *.so of the search path from a child process each; none is loaded into this one.
  // A bad plugin becomes a rejection. Throws Error (RT_ERROR_UNAVAILABLE) when there are plugins
  // and plugin_probe was not found, is not trusted, or does not start.
  Registry(const SearchPath& path, const HostServices& services,
           const RegistryOptions& options = {});

  const std::vector<PluginDescription>& plugins() const { return plugins_; }
  const std::vector<Rejection>& rejections() const { return rejections_; }

  // Says through HostServices::log which libraries were passed over, and why.
  void log_rejections() const;

  // The plugin of that name; Error (RT_ERROR_UNAVAILABLE) that lists the names there are, the
  // nearest one, the rejections and the folders searched.
  const PluginDescription& require(const std::string& name) const;

  // The same, loaded into this process: once, later calls get the same instance, which lives as
  // long as the registry or its users. Throws what require() and Plugin::load throw.
  std::shared_ptr<Plugin> open(const std::string& name) const;

 private:
  void add(const std::filesystem::path& path, ProbeResult result);

  std::vector<PluginDescription> plugins_;
  std::vector<Rejection> rejections_;
  SearchPath path_;
  HostServices services_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<Plugin>> opened_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_REGISTRY_H_
