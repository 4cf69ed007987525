// Text forms of TOML values, and the search for the name that was probably meant.
#ifndef RUNTIME_CONFIG_FORMAT_H_
#define RUNTIME_CONFIG_FORMAT_H_

#include <string>
#include <string_view>
#include <vector>

namespace runtime::config {

// Returns `text` quoted and escaped as a TOML basic string.
std::string toml_string(std::string_view text);
// Returns the shortest text that reads back as the same double.
std::string toml_number(double value);

// Returns "a, b, c".
std::string join(const std::vector<std::string>& names);

// Returns the candidate with the smallest edit distance to `name` (Damerau: insert, delete,
// replace, swap of two neighbours), or "" if none is near enough to be what was meant.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

// Returns the end of a message: `, did you mean "lr"?; known: lr, momentum`. The question is left
// out if no candidate is near.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_FORMAT_H_
