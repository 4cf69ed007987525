#include "runtime/step/freeze.h"

#include <fnmatch.h>

#include <algorithm>

namespace runtime::step {

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

}  // namespace runtime::step
