// Keys of a configuration with values, as `--set` takes them and as TOML.
#ifndef TOOLS_TRIALS_SETTINGS_H_
#define TOOLS_TRIALS_SETTINGS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runtime/config/value.h"

namespace tools::trials {

using Json = nlohmann::ordered_json;

// "section.key" and its value, in the order in which they were written.
using Settings = std::vector<std::pair<std::string, Json>>;

// Returns a TOML value as JSON. Throws ConfigurationError, with the position of the value, for a
// date and for a number that is not finite, which JSON does not have.
Json to_json(const runtime::config::Value& value);

// Returns a value as TOML, which --set accepts: `0.1`, `"cosine"`, `{ normal = 0.01 }`.
std::string toml_text(const Json& value);

// Returns a value as a table shows it: like toml_text(), but text without quotes.
std::string short_text(const Json& value);

// Appends "--set", "section.key=value" for each setting.
void add_settings(std::vector<std::string>& arguments, const Settings& settings);

// Returns the settings as the lines of a TOML file, with a header for each section.
std::string toml_lines(const Settings& settings);

// Returns the number with so many significant digits, as text reads best: 0.0316.
double rounded(double value, int digits);

}  // namespace tools::trials

#endif  // TOOLS_TRIALS_SETTINGS_H_
