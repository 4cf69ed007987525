// The metrics that a validation may compute, as rows: what the configuration needs to know of each.
// Those that compute them are rows of runtime/train/metrics.
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
  std::string documentation = {};  // how the reference lists it; empty: by its name
  std::string example = {};        // one of the names that the row stands for; empty: its own
  bool regression = false;         // it compares numbers; otherwise it compares classes
  bool larger_is_better = true;    // which value validation.monitor prefers
  bool table = false;              // it is no single number, so that it cannot be monitored
  bool always = false;             // every validation of classes reports it, asked for or not
  bool of_cross_entropy = false;   // it follows from the loss of a language model
  bool keeps_scores = false;       // it keeps a score for each row and class
};

// The function returns all metrics in the order of the documentation. The list is constant and
// lives as long as the program; any thread may read it.
const std::vector<Metric>& metrics();

// The function returns the metric of this name, or nullptr; top_5 finds the row "top_k".
const Metric* find_metric(std::string_view name);

// The names of validation.metrics as the reference lists them.
std::string metrics_documentation();

// The function returns the k of "top_<k>", which is at least 2 and has no leading zero; 0 for every
// other name.
int64_t k_of(std::string_view name);

// Whether validation.monitor, or a field of metrics.jsonl, is the loss, which is no metric.
bool is_loss(std::string_view monitor);

// Whether a larger value of validation.monitor is the better one: of "accuracy", not of "loss".
bool larger_is_better(std::string_view monitor);

// The same for a field of metrics.jsonl ("validation_f1", "samples_per_second"); nullopt for a
// field that no run writes.
std::optional<bool> larger_field_is_better(std::string_view field);

}  // namespace runtime::config

#endif  // RUNTIME_CONFIG_METRICS_H_
