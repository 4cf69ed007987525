// Makes the families that the names ask for, and feeds them predictions without ignored labels.
#include "runtime/train/metrics/validation_metrics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "runtime/config/metrics.h"
#include "runtime/error.h"
#include "runtime/row_of.h"
#include "runtime/train/metrics/class_counts.h"
#include "runtime/train/metrics/class_scores.h"
#include "runtime/train/metrics/target_sums.h"

namespace runtime::train {

namespace {

using Names = std::vector<std::string>;

const std::vector<FamilyRow>& families() {
  static const std::vector<FamilyRow>& all = *new std::vector<FamilyRow>{
      target_sums_row(), top_k_row(), class_scores_row(), class_counts_row()};
  return all;
}

// A metric that the validation knows without looking at the predictions: a function of the loss, or
// (null) what a validation has anyway.
struct OfLoss {
  std::string name;
  double (*value)(double loss);
};

const std::vector<OfLoss>& of_loss() {
  static const std::vector<OfLoss>& all = *new std::vector<OfLoss>{
      {"accuracy", nullptr}, {"perplexity", [](double loss) { return std::exp(loss); }}};
  return all;
}

bool computes(const FamilyRow& family, const std::string& name) {
  const std::string& row = config::find_metric(name)->name;
  return std::count(family.metrics.begin(), family.metrics.end(), row) > 0;
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw ConfigurationError("validation.metrics has \"" + name + "\", " + why);
}

void check_metric(const std::string& name, const data::SampleSpec& spec) {
  const std::string classes = std::to_string(spec.classes);
  const config::Metric* const metric = config::find_metric(name);
  if (metric == nullptr) refuse(name, "which does not exist; runtime config schema has all names");
  if (metric->regression != (task_of(spec) == Task::kRegression))
    refuse(name, "which does not fit a data set for " +
                     std::string(spec.classes > 0 ? "classification" : "regression") +
                     "; remove it");
  if (const int64_t k = config::k_of(name); k > 0 && k >= spec.classes)
    refuse(name, "which is always 1 with the " + classes +
                     " classes of the data set; use a k below that, or remove it");
  if (metric->table && spec.classes > kMostConfusionClasses)
    refuse(name, "but the data set has " + classes + " classes, expected at most " +
                     std::to_string(kMostConfusionClasses) + "; use precision, recall and f1");
}

}  // namespace

Task task_of(const data::SampleSpec& spec) {
  return spec.classes > 0 ? Task::kClassification : Task::kRegression;
}

void check_metrics(const Names& names, const data::SampleSpec& spec) {
  for (const std::string& name : names) check_metric(name, spec);
}

std::vector<std::string> written_metrics() {
  std::vector<std::string> names;
  for (const OfLoss& metric : of_loss()) names.push_back(metric.name);
  for (const FamilyRow& family : families())
    names.insert(names.end(), family.metrics.begin(), family.metrics.end());
  return names;
}

ValidationMetrics::ValidationMetrics(const Names& names, const data::SampleSpec& spec,
                                     int64_t outputs, int32_t ignored)
    : ignored_(ignored), target_numbers_(spec.classes > 0 ? 0 : spec.targets) {
  std::map<std::string, const MetricFamily*> family_of;
  for (const FamilyRow& row : families()) {
    FamilyOptions options = {spec.classes, spec.targets, outputs};
    std::copy_if(names.begin(), names.end(), std::back_inserter(options.names),
                 [&](const std::string& name) { return computes(row, name); });
    if (options.names.empty()) continue;
    families_.push_back(row.make(options));
    for (const std::string& name : options.names) family_of[name] = families_.back().get();
  }
  for (const std::string& name : names) {
    if (config::find_metric(name)->table) continue;
    if (const auto family = family_of.find(name); family != family_of.end()) {
      numbers_.push_back({name, family->second, nullptr});
    } else if (const auto value = find_row("validation.metrics", name, of_loss()).value) {
      numbers_.push_back({name, nullptr, value});
    }
  }
}

// The rows of a batch that count, in memory of this object.
Predictions ValidationMetrics::counted(const Predictions& all) {
  outputs_.clear();
  labels_.clear();
  targets_.clear();
  Predictions some = all;
  some.rows = 0;
  for (int64_t row = 0; row < all.rows; ++row) {
    if (all.counts != nullptr && !(*all.counts)[static_cast<size_t>(row)]) continue;
    if (target_numbers_ == 0 && all.labels[row] == ignored_) continue;
    ++some.rows;
    if (target_numbers_ == 0) labels_.push_back(all.labels[row]);
    const float* const targets = all.targets + row * target_numbers_;
    targets_.insert(targets_.end(), targets, targets + target_numbers_);
    const double* const outputs = all.outputs + row * all.width;
    outputs_.insert(outputs_.end(), outputs, outputs + all.width);
  }
  some.outputs = outputs_.data();
  some.labels = labels_.data();
  some.targets = targets_.data();
  return some;
}

void ValidationMetrics::add(const Predictions& predictions) {
  const bool all = ignored_ < 0 && predictions.counts == nullptr;
  const Predictions some = all ? predictions : counted(predictions);
  for (const auto& family : families_) family->add(some);
}

MetricValues ValidationMetrics::combine(const Gather& gather, double loss, bool counts) {
  for (const auto& family : families_) family->combine(gather);
  MetricValues values;
  for (const Number& n : numbers_) {
    const double value = n.family != nullptr ? n.family->value(n.name) : n.of_loss(loss);
    values.numbers.push_back({n.name, counts ? value : std::numeric_limits<double>::quiet_NaN()});
  }
  for (const auto& family : families_) {
    if (ConfusionMatrix table = family->table(); !table.empty())
      values.confusion = std::move(table);
  }
  return values;
}

}  // namespace runtime::train
