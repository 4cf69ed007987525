// The area under the receiver operating characteristic.
#ifndef RUNTIME_TRAIN_METRICS_CLASS_SCORES_H_
#define RUNTIME_TRAIN_METRICS_CLASS_SCORES_H_

#include <string>
#include <vector>

#include "runtime/train/metrics/family.h"

namespace runtime::train {

// The probability that a positive sample has a larger score than a negative one, where equal scores
// count one half (Mann and Whitney, 1947); both are counted exactly, in integers. NaN if there are
// no positives or no negatives, or if a score is NaN. Equivalent to: roc_auc_score of scikit-learn.
double area_under_roc(const std::vector<float>& scores, const std::vector<bool>& positive);

// Writes the logarithms of p / (1 - p) for the softmax p of `width` logits: they rank samples as p
// does, but keep apart what rounds to the same p near 0 and 1. `odds` has `width` numbers.
void log_odds(const double* logits, int64_t width, double* odds);

// auroc: with two classes the area for class 1; with more the mean over the classes of the area for
// one class against the rest. Classes without a positive or without a negative sample are left out;
// NaN if none is left. Equivalent to: roc_auc_score of scikit-learn with multi_class = "ovr" and
// average = "macro".
//
// Each rank keeps a float32 score of each of its rows and classes, and in combine() those of all
// rows for one class at a time.
class ClassScores : public MetricFamily {
 public:
  explicit ClassScores(const FamilyOptions& options);
  void add(const Predictions& predictions) override;
  void combine(const Gather& gather) override;
  double value(const std::string& name) const override;

 private:
  std::vector<int32_t> classes_;            // whose areas are computed
  std::vector<std::vector<float>> scores_;  // by item of `classes_`, then by row of this rank
  std::vector<int32_t> labels_;             // by row of this rank
  double area_ = 0;
};

FamilyRow class_scores_row();

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_METRICS_CLASS_SCORES_H_
