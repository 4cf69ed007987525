// Metrics of a regression, which follow from sums over the samples.
#ifndef RUNTIME_TRAIN_METRICS_TARGET_SUMS_H_
#define RUNTIME_TRAIN_METRICS_TARGET_SUMS_H_

#include <string>
#include <vector>

#include "runtime/train/metrics/family.h"

namespace runtime::train {

// mse and mae: the means of the squared and absolute errors of all samples and targets. r2: the
// mean over the targets of 1 - sum of squared errors / sum of squared deviations from the mean
// target; with constant targets 1 if all errors are 0, else 0. Equivalent to: mean_squared_error,
// mean_absolute_error and r2_score of scikit-learn.
//
// Sums are made for each batch and then over the batches in their order, so that their bits do not
// depend on which rank has evaluated which batch.
class TargetSums : public MetricFamily {
 public:
  // The sums of one target over some samples.
  struct Sums {
    double absolute = 0, squared = 0;  // of the errors
    double mean = 0, deviations = 0;   // of the targets; squared deviations from their mean
    void merge(double rows, const Sums& other, double other_rows);
  };

  explicit TargetSums(const FamilyOptions& options);
  void add(const Predictions& predictions) override;
  void combine(const Gather& gather) override;
  double value(const std::string& name) const override;

 private:
  // The sums of one batch as numbers that are gathered: its index, its rows, then the sums.
  void take(const double* record);

  const int64_t targets_;
  std::vector<double> records_;  // of the batches of this rank
  std::vector<Sums> sums_;       // by target
  double rows_ = 0;
};

FamilyRow target_sums_row();

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_METRICS_TARGET_SUMS_H_
