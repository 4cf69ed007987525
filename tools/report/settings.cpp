// Flattens a configuration into keys, and compares two of them.
#include "tools/report/settings.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/config/config.h"
#include "runtime/config/value.h"
#include "runtime/error.h"

namespace tools::report {

namespace {

using runtime::config::Member;
using runtime::config::Value;

std::string number_text(double value) {
  if (std::isfinite(value)) return nlohmann::json(value).dump();
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

// A value on one line.
std::string to_text(const Value& value) {
  std::string text;
  switch (value.kind) {
    case Value::Kind::kBoolean:
      return value.boolean ? "true" : "false";
    case Value::Kind::kInteger:
      return std::to_string(value.integer);
    case Value::Kind::kNumber:
      return number_text(value.number);
    case Value::Kind::kString:
      return "\"" + value.string + "\"";
    case Value::Kind::kDate:
      return value.string.empty() ? "a date" : value.string;
    case Value::Kind::kArray:
      for (const Value& item : value.items) text += (text.empty() ? "" : ", ") + to_text(item);
      return "[" + text + "]";
    case Value::Kind::kTable:
      for (const Member& m : value.members)
        text += (text.empty() ? "" : ", ") + m.key + " = " + to_text(m.value);
      return "{ " + text + " }";
  }
  return text;
}

bool is_list_of_tables(const Value& value) {
  return value.is(Value::Kind::kArray) && !value.items.empty() &&
         value.items[0].is(Value::Kind::kTable);
}

void flatten(const Value& value, const std::string& key, std::vector<Setting>& out) {
  if (value.is(Value::Kind::kTable)) {
    for (const Member& m : value.members)
      flatten(m.value, key.empty() ? m.key : key + "." + m.key, out);
  } else if (is_list_of_tables(value)) {
    for (size_t i = 0; i < value.items.size(); ++i)
      out.push_back({key + "[" + std::to_string(i) + "]", to_text(value.items[i])});
  } else {
    out.push_back({key, to_text(value)});
  }
}

}  // namespace

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
  std::vector<Setting> settings;
  flatten(runtime::config::parse_toml(text, name), "", settings);
  return Settings(std::move(settings));
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
