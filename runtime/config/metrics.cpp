// The table of metrics, and what follows from their names.
#include "runtime/config/metrics.h"

#include <algorithm>
#include <charconv>

namespace runtime::config {

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = {
      {.name = "accuracy"},
      {.name = "top_k"},
      {.name = "precision"},
      {.name = "recall"},
      {.name = "f1"},
      {.name = "precision_micro"},
      {.name = "recall_micro"},
      {.name = "f1_micro"},
      {.name = "confusion", .table = true},
      {.name = "auroc"},
      {.name = "perplexity", .larger_is_better = false},
      {.name = "mse", .regression = true, .larger_is_better = false},
      {.name = "mae", .regression = true, .larger_is_better = false},
      {.name = "r2", .regression = true},
  };
  return all;
}

int64_t k_of(std::string_view name) {
  constexpr std::string_view kPrefix = "top_";
  if (!name.starts_with(kPrefix) || name.size() > kPrefix.size() + 8) return 0;
  name.remove_prefix(kPrefix.size());
  int64_t k = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), k);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && k >= 2 && name.front() != '0' ? k : 0;
}

const Metric* find_metric(std::string_view name) {
  if (name == "top_k") return nullptr;  // the documentation's word for all of them
  const std::string_view wanted = k_of(name) > 0 ? "top_k" : name;
  const auto found = std::find_if(metrics().begin(), metrics().end(),
                                  [&](const Metric& m) { return m.name == wanted; });
  return found == metrics().end() ? nullptr : &*found;
}

bool larger_is_better(std::string_view monitor) {
  const Metric* const metric = find_metric(monitor);
  return metric != nullptr && metric->larger_is_better;
}

std::optional<bool> larger_field_is_better(std::string_view field) {
  constexpr std::string_view kValidation = "validation_";
  if (field.starts_with(kValidation)) field.remove_prefix(kValidation.size());
  if (field == "loss") return false;
  if (field == "mfu" || field.ends_with("_per_second")) return true;
  if (find_metric(field) == nullptr) return std::nullopt;
  return larger_is_better(field);
}

}  // namespace runtime::config
