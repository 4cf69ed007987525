// A family of metrics: what several metrics need to know of the predictions.
#ifndef RUNTIME_TRAIN_METRICS_FAMILY_H_
#define RUNTIME_TRAIN_METRICS_FAMILY_H_

#include <cstdint>
#include <string>

#include "runtime/train/metrics/gather.h"

namespace runtime::train {

// The predictions for one batch, in host memory that belongs to the caller. A row is a sample, or
// in a language model a token. Padding rows are left out.
struct Predictions {
  int64_t batch = 0;                // the index of the batch in the data set, from 0
  int64_t rows = 0;                 // rows below
  int64_t width = 0;                // numbers that the model outputs for a row
  const double* outputs = nullptr;  // [rows, width]: logits, or the predicted numbers
  const int32_t* labels = nullptr;  // [rows] in a classification
  const float* targets = nullptr;   // [rows, width] in a regression
};

// One rank's object for one validation, used by one thread. Every rank calls add() for the batches
// that it has evaluated and then combine() once; from then on all ranks have the same values, bit
// for bit, whichever rank has added which batch.
class MetricFamily {
 public:
  virtual ~MetricFamily() = default;
  virtual void add(const Predictions& predictions) = 0;
  // The function takes over what all ranks have added. All ranks call it at the same time.
  virtual void combine(const Gather& gather) = 0;
  // The function returns a metric of this family. `name` is one of validation.metrics.
  virtual double value(const std::string& name) const = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_METRICS_FAMILY_H_
