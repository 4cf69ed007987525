// The table of metrics, and what follows from their names.
#include "runtime/config/metrics.h"

#include <algorithm>
#include <charconv>

namespace runtime::config {

const std::vector<Metric>& metrics() {
  static const std::vector<Metric>& all = *new std::vector<Metric>{
      {.name = "accuracy", .always = true},
      {.name = "top_k", .documentation = "top_2, top_3, ... (any k)", .example = "top_5"},
      {.name = "precision"},
      {.name = "recall"},
      {.name = "f1", .documentation = "f1 (means over the classes)"},
      {.name = "precision_micro"},
      {.name = "recall_micro"},
      {.name = "f1_micro"},
      {.name = "confusion", .documentation = "confusion (a table)", .table = true},
      {.name = "auroc",
       .documentation =
           "auroc (2 classes: of class 1; more: the mean of one class against the rest)",
       .keeps_scores = true},
      {.name = "perplexity", .larger_is_better = false, .of_cross_entropy = true},
      {.name = "mse", .regression = true, .larger_is_better = false},
      {.name = "mae", .regression = true, .larger_is_better = false},
      {.name = "r2", .regression = true},
  };
  return all;
}

std::string metrics_documentation() {
  std::string classes, language, numbers;
  for (const Metric& m : metrics()) {
    std::string& list = m.regression ? numbers : m.of_cross_entropy ? language : classes;
    list += (list.empty() ? "" : ", ") + (m.documentation.empty() ? m.name : m.documentation);
  }
  return "Classes: " + classes + "; language models: " + language + "; numbers: " + numbers;
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
  const bool any_k = k_of(name) > 0;
  const auto found = std::find_if(metrics().begin(), metrics().end(), [&](const Metric& m) {
    return m.example.empty() ? m.name == name : any_k && k_of(m.example) > 0;
  });
  return found == metrics().end() ? nullptr : &*found;
}

bool is_loss(std::string_view monitor) { return monitor == "loss"; }

bool larger_is_better(std::string_view monitor) {
  const Metric* const metric = find_metric(monitor);
  return metric != nullptr && metric->larger_is_better;
}

std::optional<bool> larger_field_is_better(std::string_view field) {
  constexpr std::string_view kValidation = "validation_";
  if (field.starts_with(kValidation)) field.remove_prefix(kValidation.size());
  if (is_loss(field)) return false;
  if (field == "mfu" || field.ends_with("_per_second")) return true;
  if (find_metric(field) == nullptr) return std::nullopt;
  return larger_is_better(field);
}

}  // namespace runtime::config
