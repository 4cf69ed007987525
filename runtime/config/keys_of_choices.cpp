// What all lists of choices share.
#include "runtime/config/keys_of_choices.h"

#include "runtime/config/toml_text.h"

namespace runtime::config {

std::string own_default_text(const Type& type, const std::vector<double>& own_default) {
  if (own_default.empty()) return "";
  if (type == Type::kNumbers) return ", " + toml_text(own_default) + " if empty";
  return ", " + toml_text(own_default.front()) + " if 0";
}

std::string join_uses(const std::vector<KeyUse>& uses) {
  std::vector<KeyUse> groups;  // choices with the same documentation
  for (const KeyUse& use : uses) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const KeyUse& group) {
      return group.documentation == use.documentation;
    });
    if (same == groups.end())
      groups.push_back(use);
    else
      same->choice += ", " + use.choice;
  }
  std::string text;
  for (const KeyUse& group : groups)
    text += (text.empty() ? "" : "; ") + group.choice + ": " + group.documentation;
  return text;
}

Range hull(const Range& a, const Range& b) {
  Range all = a;
  if (b.minimum < a.minimum || (b.minimum == a.minimum && !b.open_minimum)) {
    all.minimum = b.minimum;
    all.open_minimum = b.open_minimum;
  }
  if (b.maximum > a.maximum || (b.maximum == a.maximum && !b.open_maximum)) {
    all.maximum = b.maximum;
    all.open_maximum = b.open_maximum;
  }
  return all;
}

}  // namespace runtime::config
