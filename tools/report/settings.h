// The resolved configuration of a run, key by key.
#ifndef TOOLS_REPORT_SETTINGS_H_
#define TOOLS_REPORT_SETTINGS_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/entries.h"

namespace tools::report {

using Setting = runtime::config::Entry;

// In the order of the file.
class Settings {
 public:
  Settings() = default;
  explicit Settings(std::vector<Setting> all) : all_(std::move(all)) {}
  const std::vector<Setting>& all() const { return all_; }
  // "" if there is no such key.
  std::string find(std::string_view key) const;
  // NaN if there is no such key, or if its value is no number.
  double number(std::string_view key) const;

 private:
  std::vector<Setting> all_;
};

// Reads config.toml. Throws DataError if it cannot be read, ConfigurationError if it is no TOML.
Settings read_settings(const std::filesystem::path& file);

// Returns the keys of a text of TOML. `name`: for the message of the ConfigurationError that it
// throws if the text is no TOML.
Settings settings_of(const std::string& text, const std::string& name);

// The values that keys have in a run whose file does not name them.
Settings default_settings();

// The keys whose values are not the default, in their order.
std::vector<std::string> changed_keys(const Settings& settings, const Settings& defaults);

// The keys in which the settings of runs differ, in the order of their first appearance. A run
// without any settings is not compared.
std::vector<std::string> differing_keys(const std::vector<const Settings*>& runs);

}  // namespace tools::report

#endif  // TOOLS_REPORT_SETTINGS_H_
