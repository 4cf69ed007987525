#include "plugins/host/registry.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "plugins/host/error.h"
#include "plugins/host/nearest.h"

namespace plugins::host {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> split_environment(const char* text) {
  std::vector<fs::path> paths;
  std::string rest = text != nullptr ? text : "";
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) paths.emplace_back(rest.substr(0, colon));
    rest.erase(0, colon + 1);
  }
  return paths;
}

// The *.so files of a folder, by name, so that the order does not depend on the file system.
std::vector<fs::path> libraries_in(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> libraries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".so") libraries.push_back(it->path());
  }
  std::sort(libraries.begin(), libraries.end());
  return libraries;
}

bool has_parent_reference(const fs::path& path) {
  return std::find(path.begin(), path.end(), "..") != path.end();
}

// Fills a registry's two lists, entry by entry of the search path.
class Scan {
 public:
  Scan(const HostServices& services, std::vector<std::shared_ptr<Plugin>>& plugins,
       std::vector<Rejection>& rejections)
      : services_(services), plugins_(plugins), rejections_(rejections) {}

  // `optional`: an entry that does not exist is no rejection.
  void add_entry(const fs::path& entry, const std::string& origin, bool optional) {
    if (!entry.is_absolute() || has_parent_reference(entry)) {
      reject(entry, origin + " names it by a relative path or with '..'; write an absolute path");
      return;
    }
    std::error_code error;
    const fs::file_status status = fs::status(entry, error);
    if (status.type() == fs::file_type::not_found) {
      if (!optional) reject(entry, "does not exist; " + origin + " names it");
    } else if (fs::is_directory(status)) {
      add_folder(entry);
    } else {
      add_library(entry);
    }
  }

 private:
  void add_folder(const fs::path& folder) {
    std::error_code error;
    for (const fs::path& library : libraries_in(folder, error)) add_library(library);
    if (error) reject(folder, "cannot be listed: " + error.message());
  }

  void add_library(const fs::path& library) {
    // The same file by two entries of the search path is one plugin, not a conflict of names.
    std::error_code error;
    const fs::path real = fs::weakly_canonical(library, error);
    if (!error && !seen_.insert(real).second) return;
    try {
      add_plugin(Plugin::load(library, services_));
    } catch (const std::exception& e) {
      reject(library, without_path(e.what(), library));
    }
  }

  // A rejection has the path in a field of its own.
  static std::string without_path(const std::string& message, const fs::path& library) {
    const std::string prefix = "plugin " + library.string() + ": ";
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
  }

  void add_plugin(std::shared_ptr<Plugin> plugin) {
    for (const auto& other : plugins_) {
      if (other->name() != plugin->name()) continue;
      reject(plugin->path(), "the name '" + plugin->name() + "' is taken by " +
                                 other->path().string() +
                                 ", which comes first in the search path; remove one of the two");
      return;
    }
    plugins_.push_back(std::move(plugin));
  }

  void reject(const fs::path& path, const std::string& reason) {
    rejections_.push_back({path, reason});
  }

  const HostServices& services_;
  std::vector<std::shared_ptr<Plugin>>& plugins_;
  std::vector<Rejection>& rejections_;
  std::set<fs::path> seen_;
};

std::vector<std::string> searched(const SearchPath& path) {
  std::vector<std::string> names;
  for (const auto& entry : path.configured) names.push_back(entry.string());
  for (const auto& entry : path.environment) names.push_back(entry.string());
  if (!path.built_in.empty()) names.push_back(path.built_in.string());
  return names;
}

}  // namespace

SearchPath SearchPath::standard(std::vector<fs::path> configured) {
  SearchPath path;
  path.configured = std::move(configured);
  path.environment = split_environment(std::getenv("RUNTIME_PLUGIN_PATH"));
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) path.built_in = executable.parent_path().parent_path() / "lib/runtime/plugins";
  return path;
}

Registry::Registry(const SearchPath& path, const HostServices& services) : path_(path) {
  Scan scan(services, plugins_, rejections_);
  for (const auto& entry : path.configured) scan.add_entry(entry, "the configuration", false);
  for (const auto& entry : path.environment) scan.add_entry(entry, "RUNTIME_PLUGIN_PATH", false);
  if (!path.built_in.empty()) scan.add_entry(path.built_in, "the installation", true);
}

std::shared_ptr<Plugin> Registry::require(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& plugin : plugins_) {
    if (plugin->name() == name) return plugin;
    names.push_back(plugin->name());
  }
  std::string message = "no plugin is named '" + name + "'; available: " + join_names(names);
  const std::string nearest = nearest_name(name, names);
  if (!nearest.empty()) message += "; did you mean '" + nearest + "'?";
  for (const Rejection& rejection : rejections_) {
    message += "\n  rejected: " + rejection.path.string() + ": " + rejection.reason;
  }
  message += "\n  searched: " + join_names(searched(path_)) +
             "\n  Name one of the available plugins, or put the folder of the missing one into "
             "[plugins] path or RUNTIME_PLUGIN_PATH.";
  throw Error(RT_ERROR_UNAVAILABLE, message);
}

}  // namespace plugins::host
