// Checks that every trial measures the metric that the sweep compares.
#include "tools/sweep/monitor.h"

#include <algorithm>
#include <string_view>

#include "runtime/config/metrics.h"
#include "tools/trials/program.h"

namespace tools::sweep {

namespace {

using runtime::config::Member;
using runtime::config::Value;

constexpr std::string_view kValidation = "validation_";

// Whether the configuration names the metric, where it has to be named.
bool is_computed(const std::string& name, const Value& config) {
  const auto* const metric = runtime::config::find_metric(name);
  if (runtime::config::is_loss(name) || (metric != nullptr && metric->always)) return true;
  const Member* const section = config.find("validation");
  const Member* const metrics = section == nullptr ? nullptr : section->value.find("metrics");
  return metrics != nullptr &&
         std::any_of(metrics->value.items.begin(), metrics->value.items.end(),
                     [&](const Value& metric) { return metric.string == name; });
}

}  // namespace

std::string why_not_measured(const std::string& monitor, const Value& config) {
  if (!monitor.starts_with(kValidation)) return "";
  if (trials::number_of(config, "validation", "every_epochs") == 0 &&
      trials::number_of(config, "validation", "every_steps") == 0)
    return "validation.every_epochs and validation.every_steps are 0; set one of them, or monitor "
           "to another field";
  const std::string name = monitor.substr(kValidation.size());
  if (is_computed(name, config)) return "";
  return "validation.metrics has no \"" + name + "\"; add it, or set monitor to another field";
}

}  // namespace tools::sweep
