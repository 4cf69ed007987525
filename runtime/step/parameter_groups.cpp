// Assigns parameters to groups by pattern, and sets vectors apart from weight decay.
#include "runtime/step/parameter_groups.h"

#include <algorithm>

#include "runtime/row_of.h"
#include "runtime/step/freeze.h"

namespace runtime::step {

namespace {

bool vectors_apart(const config::UpdateRule& rule) {
  return rule.weight_decay != 0 && row_of<bool>("optimizer.weight_decay_on", rule.weight_decay_on,
                                                {{"all", false}, {"matrices", true}});
}

}  // namespace

std::vector<config::UpdateRule> update_rules(const config::Optimizer& optimizer) {
  std::vector<config::UpdateRule> rules;
  const auto add = [&](const config::UpdateRule& rule) {
    rules.push_back(rule);
    if (!vectors_apart(rule)) return;
    rules.push_back(rule);
    rules.back().weight_decay = 0;
  };
  add(optimizer);
  for (const config::OptimizerGroup& group : optimizer.groups) add(group);
  return rules;
}

size_t group_of(const config::Optimizer& optimizer, const model::Parameter& parameter) {
  const std::vector<config::OptimizerGroup>& groups = optimizer.groups;
  const auto own = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
    return matches_any(group.parameters, parameter.name);
  });
  const bool is_vector = parameter.file_dims.size() < 2;
  const auto in = [&](const config::UpdateRule& rule) -> size_t {
    return vectors_apart(rule) && is_vector ? 1 : 0;
  };
  if (own == groups.end()) return in(optimizer);
  size_t before = vectors_apart(optimizer) ? 2 : 1;
  for (auto group = groups.begin(); group != own; ++group) before += vectors_apart(*group) ? 2 : 1;
  return before + in(*own);
}

}  // namespace runtime::step
