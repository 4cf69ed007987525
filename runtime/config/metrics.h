// The metrics that a validation may compute: their names, their task, and which value is better.
#ifndef RUNTIME_CONFIG_METRICS_H_
#define RUNTIME_CONFIG_METRICS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace runtime::config {

// One name of validation.metrics.
struct Metric {
  std::string name;
  bool regression = false;       // it compares numbers; otherwise it compares classes
  bool larger_is_better = true;  // which value validation.monitor prefers
  bool table = false;            // it is no single number, so that it cannot be monitored
};

// The function returns all metrics in the order of the documentation. "top_k" stands for the names
// top_2, top_3, and so on. The list is constant and lives as long as the program; any thread may
// read it.
const std::vector<Metric>& metrics();

// The function returns the metric of this name, or nullptr; top_5 finds "top_k".
const Metric* find_metric(std::string_view name);

// The function returns the k of "top_<k>", which is at least 2 and has no leading zero; 0 for every
// other name.
int64_t k_of(std::string_view name);

// Whether a larger value of validation.monitor is the better one: of "accuracy", not of "loss".
bool larger_is_better(std::string_view monitor);

// The same for a field of metrics.jsonl ("validation_f1", "samples_per_second"); nullopt for a
// field that no run writes.
std::optional<bool> larger_field_is_better(std::string_view field);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_METRICS_H_
