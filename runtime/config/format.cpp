#include "runtime/config/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace runtime::config {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

// Finds candidates that are far from `name` by edits but contain it: whoever writes "batch_size"
// means "global_batch_size".
std::string containing(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() < 4) return "";
  const auto found =
      std::find_if(candidates.begin(), candidates.end(),
                   [&](const std::string& each) { return each.find(name) != std::string::npos; });
  return found == candidates.end() ? "" : *found;
}

std::string escaped(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  if (code >= 0x20 && code != 0x7F) return std::string(1, c);
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\u%04X", code);
  return text.data();
}

}  // namespace

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) result += escaped(c);
  return result + "\"";
}

std::string toml_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  std::string result(text.data(), end);
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  return result;
}

std::string join(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
  return result;
}

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestName = 64;  // bounds the work, because a key may have a megabyte
  if (name.size() > kLongestName) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(1, name.size() / 2);
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    const bool better = best.empty() ? distance <= best_distance : distance < best_distance;
    if (!better) continue;
    best = candidate;
    best_distance = distance;
  }
  return best.empty() ? containing(name, candidates) : best;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string near = nearest(name, candidates);
  const std::string question = near.empty() ? "" : ", did you mean \"" + near + "\"?";
  return question + "; known: " + join(candidates);
}

}  // namespace runtime::config
