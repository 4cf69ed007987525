// Counts edits between names, and refuses suggestions that are too far away.
#include "plugins/host/nearest.h"

#include <algorithm>

namespace plugins::host {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

// Finds a name that is far from `wanted` by edits but contains it: whoever writes "batch_size"
// means "global_batch_size".
std::string containing(std::string_view wanted, const std::vector<std::string>& names) {
  if (wanted.size() < 4) return "";
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& each) {
    return each.find(wanted) != std::string::npos;
  });
  return found == names.end() ? "" : *found;
}

// Whether two short words differ in their first letter only. It is hardly mistyped: whoever writes
// "gpu" does not mean "cpu".
bool differ_in_initial(std::string_view a, std::string_view b) {
  return a.size() == b.size() && !a.empty() && a.size() < 4 && a[0] != b[0] &&
         a.substr(1) == b.substr(1);
}

}  // namespace

std::string nearest_name(std::string_view wanted, const std::vector<std::string>& names) {
  // The length is bounded because a key of a configuration may have a megabyte.
  constexpr std::size_t kLongestName = 64;
  if (wanted.size() > kLongestName) return "";
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, wanted.size() / 2);
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(wanted, name);
    const bool better = best.empty() ? distance <= best_distance : distance < best_distance;
    if (!better || differ_in_initial(wanted, name)) continue;
    best = name;
    best_distance = distance;
  }
  return best.empty() ? containing(wanted, names) : best;
}

std::string join_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::string suggestion(std::string_view wanted, const std::vector<std::string>& names) {
  const std::string near = nearest_name(wanted, names);
  const std::string question = near.empty() ? "" : ", did you mean \"" + near + "\"?";
  return question + "; known: " + join_names(names);
}

}  // namespace plugins::host
