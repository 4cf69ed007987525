// Matches names with patterns, and refuses patterns that match nothing.
#include "runtime/step/freeze.h"

#include <fnmatch.h>

#include <algorithm>

#include "runtime/error.h"

namespace runtime::step {

namespace {

constexpr size_t kNamesShown = 16;

std::string names_of(const std::vector<model::Parameter>& parameters) {
  std::string text;
  for (size_t i = 0; i < std::min(kNamesShown, parameters.size()); ++i)
    text += (i > 0 ? ", " : "") + parameters[i].name;
  if (parameters.size() <= kNamesShown) return text;
  return text + " and " + std::to_string(parameters.size() - kNamesShown) + " more";
}

// `key` is the key of the configuration that has the patterns.
void check(const std::vector<std::string>& patterns, const std::string& key,
           const std::vector<model::Parameter>& parameters) {
  for (const std::string& pattern : patterns) {
    const bool found = std::any_of(parameters.begin(), parameters.end(),
                                   [&](const auto& p) { return matches_any({pattern}, p.name); });
    if (found) continue;
    throw ConfigurationError(
        key + ": no parameter matches \"" + pattern +
        "\"; expected a pattern (* and ? as in a shell) of these: " + names_of(parameters));
  }
}

}  // namespace

bool matches_any(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  });
}

void check_patterns(const std::vector<std::string>& freeze, const config::Optimizer& optimizer,
                    const std::vector<model::Parameter>& parameters) {
  check(freeze, "model.freeze", parameters);
  for (size_t i = 0; i < optimizer.groups.size(); ++i)
    check(optimizer.groups[i].parameters, "optimizer.group[" + std::to_string(i) + "].parameters",
          parameters);
}

}  // namespace runtime::step
