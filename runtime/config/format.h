// Text forms of TOML values.
#ifndef RUNTIME_CONFIG_FORMAT_H_
#define RUNTIME_CONFIG_FORMAT_H_

#include <string>
#include <string_view>

namespace runtime::config {

// Returns `text` quoted and escaped as a TOML basic string.
std::string toml_string(std::string_view text);
// Returns the shortest text that reads back as the same double.
std::string toml_number(double value);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_FORMAT_H_
