// "Did you mean": finds the known name that is nearest to a wrong one.
#ifndef PLUGINS_HOST_NEAREST_H_
#define PLUGINS_HOST_NEAREST_H_

#include <string>
#include <string_view>
#include <vector>

namespace plugins::host {

// Returns the name with the smallest edit distance to `wanted` (Damerau: insert, delete, replace,
// swap of two neighbours). If none is near enough to be what was meant, it returns a name that
// contains `wanted`, or "".
std::string nearest_name(std::string_view wanted, const std::vector<std::string>& names);

// Returns the names as "a, b, c", or "none".
std::string join_names(const std::vector<std::string>& names);

// Returns the end of a message: `, did you mean "lr"?; known: lr, momentum`. The question is left
// out if no name is near.
std::string suggestion(std::string_view wanted, const std::vector<std::string>& names);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_NEAREST_H_
