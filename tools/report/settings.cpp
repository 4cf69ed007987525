// Reads the keys of a configuration, and compares those of several.
#include "tools/report/settings.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>

#include "runtime/config/config.h"
#include "runtime/config/value.h"
#include "runtime/error.h"

namespace tools::report {

std::string Settings::find(std::string_view key) const {
  const auto found =
      std::find_if(all_.begin(), all_.end(), [&](const Setting& s) { return s.key == key; });
  return found == all_.end() ? "" : found->value;
}

double Settings::number(std::string_view key) const {
  const std::string text = find(key);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' ? std::numeric_limits<double>::quiet_NaN() : value;
}

Settings read_settings(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text(runtime::config::kMaxTextBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in && !in.eof()) {
    throw runtime::DataError(file.string() +
                             ": cannot be read; name a folder of a run whose files can be read");
  }
  text.resize(static_cast<size_t>(in.gcount()));
  return settings_of(text, file.string());
}

Settings settings_of(const std::string& text, const std::string& name) {
  return Settings(runtime::config::entries(text, name));
}

Settings default_settings() { return settings_of(runtime::config::to_toml({}), "the defaults"); }

std::vector<std::string> changed_keys(const Settings& settings, const Settings& defaults) {
  std::vector<std::string> keys;
  for (const Setting& s : settings.all()) {
    if (s.value != defaults.find(s.key)) keys.push_back(s.key);
  }
  return keys;
}

std::vector<std::string> differing_keys(const std::vector<const Settings*>& runs) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const Settings* run : runs) {
    for (const Setting& s : run->all()) {
      if (seen.insert(s.key).second) keys.push_back(s.key);
    }
  }
  std::erase_if(keys, [&](const std::string& key) {
    std::set<std::string> values;
    for (const Settings* run : runs) {
      if (!run->all().empty()) values.insert(run->find(key));
    }
    return values.size() < 2;
  });
  return keys;
}

}  // namespace tools::report
