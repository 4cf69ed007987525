// The metrics of validation.metrics, which one validation computes.
#ifndef RUNTIME_TRAIN_METRICS_VALIDATION_METRICS_H_
#define RUNTIME_TRAIN_METRICS_VALIDATION_METRICS_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/train/metrics/family.h"
#include "runtime/train/metrics/values.h"

namespace runtime::train {

// What a model is trained for. Losses may be of any kind; only this decides which metrics fit.
enum class Task { kClassification, kRegression };
Task task_of(const data::SampleSpec& spec);

// The function throws ConfigurationError if a metric does not fit the data set: top_5 needs more
// than 5 classes, the confusion matrix at most kMostConfusionClasses.
void check_metrics(const std::vector<std::string>& names, const data::SampleSpec& spec);
inline constexpr int64_t kMostConfusionClasses = 1000;

// The rows of config::metrics() that something is written for, by their names.
std::vector<std::string> written_metrics();

// One rank's object for one validation, used by one thread; see MetricFamily for the calls that the
// ranks make.
class ValidationMetrics {
 public:
  // `outputs`: the numbers that the model outputs for a row. `names` have passed check_metrics().
  // Rows with the label `ignored` do not count; -1: all do, but for those that Predictions::counts
  // leaves out. Equivalent to: leaving these rows
  // out before scikit-learn's functions are called.
  ValidationMetrics(const std::vector<std::string>& names, const data::SampleSpec& spec,
                    int64_t outputs, int32_t ignored = -1);

  // Whether a metric needs add(), for which outputs are copied from the device. Loss, accuracy and
  // perplexity need no predictions.
  bool reads_predictions() const { return !families_.empty(); }
  void add(const Predictions& predictions);
  // The function returns the values over all ranks. `loss` is that of the validation, which must be
  // the mean cross entropy where perplexity, its exponential, is asked for. `counts`: whether any
  // row of any rank counts; if none does, all numbers are NaN.
  MetricValues combine(const Gather& gather, double loss, bool counts = true);

 private:
  // A metric that is a number: one of a family, or a function of the loss.
  struct Number {
    std::string name;
    const MetricFamily* family;  // null: `of_loss` computes it
    double (*of_loss)(double loss);
  };
  Predictions counted(const Predictions& all);

  const int32_t ignored_;
  const int64_t target_numbers_;  // of a row; 0 for a classification
  std::vector<double> outputs_;   // of the rows of a batch that count, where some do not
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
  std::vector<std::unique_ptr<MetricFamily>> families_;  // those that a metric needs
  std::vector<Number> numbers_;                          // in the order of the configuration
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_METRICS_VALIDATION_METRICS_H_
