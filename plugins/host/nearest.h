// "Did you mean": finds the known name that is nearest to a wrong one.
#ifndef PLUGINS_HOST_NEAREST_H_
#define PLUGINS_HOST_NEAREST_H_

#include <string>
#include <vector>

namespace plugins::host {

// The name with the smallest edit distance (insert, delete, replace); "" if more than two letters,
// and more than a third of them, would have to change.
std::string nearest_name(const std::string& wanted, const std::vector<std::string>& names);

// The names as "a, b, c", or "none".
std::string join_names(const std::vector<std::string>& names);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_NEAREST_H_
