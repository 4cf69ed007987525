// Text forms of TOML values, and the search for the name that was probably meant.
#ifndef RUNTIME_CONFIG_FORMAT_H_
#define RUNTIME_CONFIG_FORMAT_H_

#include <string>
#include <string_view>
#include <vector>

namespace runtime::config {

std::string toml_string(std::string_view text);  // quoted, escaped
std::string toml_number(double value);           // shortest text that reads back to the same double

// "a, b, c"
std::string join(const std::vector<std::string>& names);

// The candidate with the smallest edit distance (Damerau: insert, delete, replace, swap of two
// neighbours), "" if none is near enough to be what was meant.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// `, did you mean "lr"?; known: lr, momentum` (the question only where one is near).
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_FORMAT_H_
