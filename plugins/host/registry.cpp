// Searches the folders of plugins, keeps descriptions and rejections, and opens plugins by name.
#include "plugins/host/registry.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>

#include "plugins/host/error.h"
#include "plugins/host/loader.h"
#include "plugins/host/nearest.h"
#include "plugins/host/printable.h"
#include "plugins/host/program.h"

namespace plugins::host {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> split_environment(const char* text) {
  std::vector<fs::path> paths;
  std::istringstream entries(text != nullptr ? text : "");
  for (std::string entry; std::getline(entries, entry, ':');)
    if (!entry.empty()) paths.emplace_back(entry);
  return paths;
}

// The *.so files of a folder, sorted by name, so that the order does not depend on the file system.
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

// One finding of the search: a library to probe, or the reason why it is rejected.
struct Finding {
  fs::path path;
  std::optional<CheckedFile> file;
  std::string reason;
};

// Removes the path from a message, because a rejection has the path in a field of its own.
std::string without_path(const std::string& message, const fs::path& path) {
  const std::string prefix = "plugin " + printable(path.string()) + ": ";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

// Collects the findings of all entries of the search path.
class Scan {
 public:
  // `optional`: an entry that does not exist is not a rejection.
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

  const std::vector<Finding>& findings() const { return findings_; }

 private:
  void add_folder(const fs::path& folder) {
    std::error_code error;
    for (const fs::path& library : libraries_in(folder, error)) add_library(library);
    if (error) reject(folder, "cannot be listed: " + error.message());
  }

  void add_library(const fs::path& library) {
    // A file that two entries of the search path lead to is one plugin, not a conflict of names.
    std::error_code error;
    const fs::path real = fs::weakly_canonical(library, error);
    if (!error && !seen_.insert(real).second) return;
    try {
      findings_.push_back({library, check_library(library), ""});
    } catch (const Error& e) {
      reject(library, without_path(e.what(), library));
    }
  }

  void reject(const fs::path& path, const std::string& reason) {
    findings_.push_back({path, std::nullopt, reason});
  }

  std::vector<Finding> findings_;
  std::set<fs::path> seen_;
};

fs::path program_folder() { return program_path().parent_path(); }

// The paths at which plugin_probe may be; see SearchPath::probe.
std::vector<fs::path> probe_places(const SearchPath& path) {
  constexpr const char* kPlace = "libexec/runtime/plugin_probe";
  std::vector<fs::path> places;
  if (!path.probe.empty()) places.push_back(path.probe);
  places.push_back(program_folder().parent_path() / kPlace);
  for (const auto* list : {&path.configured, &path.environment}) {
    for (const fs::path& entry : *list) {
      const fs::path folder = (entry / "").lexically_normal().parent_path();
      const fs::path prefix = folder.parent_path().parent_path().parent_path();
      if (folder.is_absolute() && folder == prefix / "lib/runtime/plugins")
        places.push_back(prefix / kPlace);
    }
  }
  return places;
}

// Returns the first path that exists; throws unless check_file trusts it.
fs::path find_probe(const SearchPath& path) {
  std::vector<std::string> looked;
  for (const fs::path& place : probe_places(path)) {
    std::error_code error;
    if (fs::exists(place, error))
      return check_file(place, "the program that looks at plugins, " + place.string()).path;
    looked.push_back(place.string());
  }
  throw Error(RT_ERROR_UNAVAILABLE,
              "plugins cannot be looked at: the program plugin_probe is at none of " +
                  join_names(looked) +
                  "; install it with the runtime, or name <prefix>/lib/runtime/plugins of an "
                  "installation in RUNTIME_PLUGIN_PATH");
}

std::vector<std::string> searched(const SearchPath& path) {
  std::vector<std::string> names;
  for (const auto& entry : path.configured) names.push_back(entry.string());
  for (const auto& entry : path.environment) names.push_back(entry.string());
  if (!path.built_in.empty()) names.push_back(path.built_in.string());
  return names;
}

// Whether the plugin says the word of itself, in letters of either case: "gpu" in "NVIDIA GPUs".
bool describes(const PluginDescription& plugin, const std::string& word) {
  const auto same = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  const std::string& text = plugin.description;
  return word.size() > 2 &&
         std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

}  // namespace

SearchPath SearchPath::standard(std::vector<fs::path> configured) {
  SearchPath path;
  path.configured = std::move(configured);
  path.environment = split_environment(std::getenv("RUNTIME_PLUGIN_PATH"));
  const fs::path folder = program_folder();
  if (!folder.empty()) path.built_in = folder.parent_path() / "lib/runtime/plugins";
  return path;
}

Registry::Registry(const SearchPath& path, const HostServices& services,
                   const RegistryOptions& options)
    : path_(path), services_(services), interposer_(options.interposer) {
  Scan scan;
  for (const auto& entry : path.configured) scan.add_entry(entry, "the configuration", false);
  for (const auto& entry : path.environment) scan.add_entry(entry, "RUNTIME_PLUGIN_PATH", false);
  if (!path.built_in.empty()) scan.add_entry(path.built_in, "the installation", true);
  std::vector<CheckedFile> files;
  for (const Finding& finding : scan.findings()) {
    if (finding.file) files.push_back(*finding.file);
  }
  std::vector<ProbeResult> results;
  if (!files.empty()) results = probe(files, {find_probe(path), options.states, options.deadline});
  auto result = results.begin();
  for (const Finding& finding : scan.findings()) {
    if (!finding.file) {
      rejections_.push_back({finding.path, finding.reason});
    } else {
      add(finding.path, std::move(*result++));
    }
  }
}

void Registry::add(const fs::path& path, ProbeResult result) {
  if (!result.description) {
    rejections_.push_back({path, without_path(result.reason, path)});
    return;
  }
  const std::string& name = result.description->name;
  for (const PluginDescription& other : plugins_) {
    if (other.name != name) continue;
    rejections_.push_back(
        {path, "the name '" + name + "' is taken by " + printable(other.file.named.string()) +
                   ", which comes first in the search path; remove one of the two"});
    return;
  }
  plugins_.push_back(std::move(*result.description));
}

void Registry::log_rejections() const {
  if (!services_.log) return;
  for (const Rejection& rejection : rejections_) {
    services_.log(RT_LOG_WARNING, "plugins",
                  "skipped " + printable(rejection.path.string()) + ": " + rejection.reason);
  }
}

std::shared_ptr<Plugin> Registry::open(const std::string& name) const {
  const PluginDescription& description = require(name);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Plugin>& plugin = opened_[name];
  if (plugin == nullptr) {
    CheckedFile file = check_library(description.file.named);
    if (file.identity != description.file.identity) {
      throw Error(RT_ERROR_UNAVAILABLE, "plugin " + printable(file.named.string()) +
                                            ": has changed since it was looked at; start again");
    }
    plugin = Plugin::load(
        file, services_, [](const char*) {}, interposer_);
  }
  return plugin;
}

void Registry::throw_findings() const {
  if (interposer_ != nullptr) interposer_->throw_findings();
}

const PluginDescription& Registry::require(const std::string& name) const {
  std::vector<std::string> names, meant;
  for (const PluginDescription& plugin : plugins_) {
    if (plugin.name == name) return plugin;
    names.push_back(plugin.name);
    if (describes(plugin, name)) meant.push_back(plugin.name);
  }
  std::string message = "no plugin is named '" + printable(name) + "'" + suggestion(name, names);
  if (!meant.empty()) message += "; of that kind: " + join_names(meant);
  for (const Rejection& rejection : rejections_) {
    message += "\n  rejected: " + printable(rejection.path.string()) + ": " + rejection.reason;
  }
  message += "\n  searched: " + join_names(searched(path_)) +
             "\n  Name one of the available plugins, or put the folder of the missing one into "
             "[plugins] path or RUNTIME_PLUGIN_PATH.";
  throw Error(RT_ERROR_UNAVAILABLE, message);
}

}  // namespace plugins::host
