// Metrics that follow from how often each class was predicted for each label.
#ifndef RUNTIME_TRAIN_METRICS_CLASS_COUNTS_H_
#define RUNTIME_TRAIN_METRICS_CLASS_COUNTS_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/train/metrics/family.h"

namespace runtime::train {

// The predicted class: the first largest of `width` logits; a NaN counts as the largest, as in the
// operation correct_count.
int64_t predicted_class(const double* logits, int64_t width);

// Precision, recall and F1 over the classes of the data set, as means over the classes or (names
// that end with _micro) of all samples together, and the confusion matrix. A class that was neither
// a label nor predicted counts as 0. Equivalent to: precision_score, recall_score and f1_score of
// scikit-learn with labels = all classes, average = "macro" or "micro" and zero_division = 0.
class ClassCounts : public MetricFamily {
 public:
  // Outputs are the logits of a row, at least as many as there are classes. The confusion matrix
  // takes classes x outputs numbers, if it is asked for.
  explicit ClassCounts(const FamilyOptions& options);
  void add(const Predictions& predictions) override;
  void combine(const Gather& gather) override;
  double value(const std::string& name) const override;
  ConfusionMatrix table() const override;

 private:
  const int64_t classes_, outputs_;
  // By class: labels that were predicted, labels, and predictions of a class of the data set.
  std::vector<int64_t> hits_, labels_, predicted_;
  std::vector<int64_t> matrix_;  // [classes, outputs]; empty: not asked for
};

// top_<k>: the share of rows whose label is among the k largest logits; of equal logits the first
// ones count as larger, so that top_1 would be the accuracy.
class TopK : public MetricFamily {
 public:
  explicit TopK(const FamilyOptions& options);
  void add(const Predictions& predictions) override;
  void combine(const Gather& gather) override;
  double value(const std::string& name) const override;

 private:
  std::map<int64_t, int64_t> hits_;  // by k
  int64_t rows_ = 0;
};

FamilyRow class_counts_row();
FamilyRow top_k_row();

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_METRICS_CLASS_COUNTS_H_
