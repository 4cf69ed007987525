// Makes the families that the names ask for, and feeds them predictions without ignored labels.
#include "runtime/train/metrics/validation_metrics.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "runtime/config/metrics.h"
#include "runtime/error.h"
#include "runtime/train/metrics/class_counts.h"
#include "runtime/train/metrics/class_scores.h"
#include "runtime/train/metrics/target_sums.h"

namespace runtime::train {

namespace {

using Names = std::vector<std::string>;

bool contains(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether the validation knows the metric without looking at the predictions.
bool is_of_loss(const std::string& name) { return name == "accuracy" || name == "perplexity"; }

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
  if (name == "confusion" && spec.classes > kMostConfusionClasses)
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

ValidationMetrics::ValidationMetrics(const Names& names, const data::SampleSpec& spec,
                                     int64_t outputs, int32_t ignored)
    : names_(names), ignored_(ignored) {
  std::vector<int64_t> ks;
  bool numbers = false, areas = false, counts = false;
  for (const std::string& name : names_) {
    if (is_of_loss(name)) continue;
    if (task_of(spec) == Task::kRegression) {
      numbers = true;
    } else if (const int64_t k = config::k_of(name); k > 0) {
      ks.push_back(k);
    } else {
      (name == "auroc" ? areas : counts) = true;
    }
  }
  if (numbers) targets_ = std::make_unique<TargetSums>(spec.targets);
  if (!ks.empty()) top_ = std::make_unique<TopK>(ks);
  if (areas) scores_ = std::make_unique<ClassScores>(spec.classes);
  if (counts)
    counts_ = std::make_unique<ClassCounts>(spec.classes, outputs, contains(names_, "confusion"));
  for (MetricFamily* family : std::initializer_list<MetricFamily*>{targets_.get(), top_.get(),
                                                                   scores_.get(), counts_.get()}) {
    if (family != nullptr) families_.push_back(family);
  }
}

ValidationMetrics::~ValidationMetrics() = default;

const MetricFamily& ValidationMetrics::family_of(const std::string& name) const {
  if (targets_) return *targets_;
  if (config::k_of(name) > 0) return *top_;
  if (name == "auroc") return *scores_;
  return *counts_;
}

// The rows of a batch that count, in memory of this object.
Predictions ValidationMetrics::counted(const Predictions& all) {
  outputs_.clear();
  labels_.clear();
  for (int64_t row = 0; row < all.rows; ++row) {
    if (all.labels[row] == ignored_) continue;
    labels_.push_back(all.labels[row]);
    const double* const outputs = all.outputs + row * all.width;
    outputs_.insert(outputs_.end(), outputs, outputs + all.width);
  }
  Predictions some = all;
  some.rows = static_cast<int64_t>(labels_.size());
  some.outputs = outputs_.data();
  some.labels = labels_.data();
  return some;
}

void ValidationMetrics::add(const Predictions& predictions) {
  const Predictions some = ignored_ < 0 ? predictions : counted(predictions);
  for (MetricFamily* family : families_) family->add(some);
}

MetricValues ValidationMetrics::combine(const Gather& gather, double loss, bool counts) {
  for (MetricFamily* family : families_) family->combine(gather);
  MetricValues values;
  for (const std::string& name : names_) {
    if (name == "accuracy" || name == "confusion") continue;
    const double value = name == "perplexity" ? std::exp(loss) : family_of(name).value(name);
    values.numbers.push_back({name, counts ? value : std::numeric_limits<double>::quiet_NaN()});
  }
  if (counts_ != nullptr) values.confusion = counts_->matrix();
  return values;
}

}  // namespace runtime::train
