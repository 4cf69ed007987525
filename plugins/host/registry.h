// Finds plugins, keeps those that load, remembers why the others did not.
#ifndef PLUGINS_HOST_REGISTRY_H_
#define PLUGINS_HOST_REGISTRY_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "plugins/host/plugin.h"

namespace plugins::host {

// Where plugins are looked for, in this order; the current folder and LD_LIBRARY_PATH never are.
struct SearchPath {
  std::vector<std::filesystem::path>
      configured;  // [plugins] path of the configuration: folders or files, absolute
  std::vector<std::filesystem::path>
      environment;                 // RUNTIME_PLUGIN_PATH; relative entries are rejected
  std::filesystem::path built_in;  // <folder of the executable>/../lib/runtime/plugins

  // Environment and built-in folder of this process, plus `configured`.
  static SearchPath standard(std::vector<std::filesystem::path> configured = {});
};

struct Rejection {
  std::filesystem::path path;
  std::string reason;
};

// Thread-safe after construction. A plugin name found twice: the first wins, the second is a
// rejection.
class Registry {
 public:
  // Loads every *.so of the search path. Never throws for a bad plugin: it becomes a rejection.
  Registry(const SearchPath& path, const HostServices& services);

  const std::vector<std::shared_ptr<Plugin>>& plugins() const { return plugins_; }
  const std::vector<Rejection>& rejections() const { return rejections_; }

  // The plugin of that name; Error (RT_ERROR_UNAVAILABLE) that lists the names there are, the
  // nearest one, the rejections and the folders searched.
  std::shared_ptr<Plugin> require(const std::string& name) const;

 private:
  std::vector<std::shared_ptr<Plugin>> plugins_;
  std::vector<Rejection> rejections_;
  SearchPath path_;
};

}  // namespace plugins::host

#endif  // PLUGINS_HOST_REGISTRY_H_
