// A family of metrics: the sums or lists over all predictions from which several metrics follow.
#ifndef RUNTIME_TRAIN_METRICS_FAMILY_H_
#define RUNTIME_TRAIN_METRICS_FAMILY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/train/metrics/gather.h"
#include "runtime/train/metrics/values.h"

namespace runtime::train {

// The predictions for one batch, in host memory that belongs to the caller. A row is a sample, or
// in a language model a token. Padding rows are left out.
struct Predictions {
  int64_t batch = 0;                          // the index of the batch in the data set, from 0
  int64_t rows = 0;                           // rows below
  int64_t width = 0;                          // numbers that the model outputs for a row
  const double* outputs = nullptr;            // [rows, width]: logits, or the predicted numbers
  const int32_t* labels = nullptr;            // [rows] in a classification
  const float* targets = nullptr;             // [rows, width] in a regression
  const std::vector<bool>* counts = nullptr;  // [rows]: whether a row counts; null: all do
};

// What one rank accumulates during one validation. An object is used by one thread. Every rank
// calls add() for each batch that it has evaluated, and then combine() once. After that all ranks
// have the same values, bit for bit, whichever rank has added which batch. Equivalent to: a
// torchmetrics Metric, whose update(), sync() and compute() are the three functions below.
class MetricFamily {
 public:
  virtual ~MetricFamily() = default;
  // Adds the predictions for one batch. Nothing of `predictions` is read after the call.
  virtual void add(const Predictions& predictions) = 0;
  // Replaces what this rank has accumulated by what all ranks have. All ranks of the job call it,
  // because `gather` is a collective.
  virtual void combine(const Gather& gather) = 0;
  // Returns a metric over what was accumulated. `name` is a metric of this family, spelt as in
  // validation.metrics.
  virtual double value(const std::string& name) const = 0;
  // The function returns the metric that is a table; empty: the family has none, or it was not
  // asked for.
  virtual ConfusionMatrix table() const { return {}; }
};

// The data set and the model tell a family these numbers, and validation.metrics the names.
struct FamilyOptions {
  int64_t classes = 0;                  // of the data set; 0 in a regression
  int64_t targets = 0;                  // of the data set, for a sample
  int64_t outputs = 0;                  // the numbers that the model outputs for a row
  std::vector<std::string> names = {};  // of its metrics that are asked for
};

// A family as a row: the rows of config::metrics() that it computes, by their names.
struct FamilyRow {
  std::vector<std::string> metrics;
  std::unique_ptr<MetricFamily> (*make)(const FamilyOptions& options);
};

template <class Family>
std::unique_ptr<MetricFamily> make_family(const FamilyOptions& options) {
  return std::make_unique<Family>(options);
}

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_METRICS_FAMILY_H_
