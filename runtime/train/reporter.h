// What the loop tells of a run, and who listens.
#ifndef RUNTIME_TRAIN_REPORTER_H_
#define RUNTIME_TRAIN_REPORTER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/train/device_meter.h"
#include "runtime/train/metrics/values.h"

namespace runtime::train {

// The mean of the steps since the line before, on this rank, in seconds.
struct RankCost {
  double step = 0;     // from one step to the next, input and waiting included
  double waiting = 0;  // part of `step` in which the rank waited for other ranks
  double data = 0;     // part of `step` in which it waited for its samples
};

// One line of metrics, during an epoch or at its end; at the end of an epoch with the validation,
// if there is one.
struct Metrics {
  int64_t step = 0;   // steps done
  int64_t epoch = 0;  // from 0; what is printed and written counts from 1
  double loss = 0;    // mean since the previous line
  double lr = 0;
  double samples_per_second = 0;
  std::optional<double> validation_loss, validation_accuracy;
  DeviceLoad device = {};
  // With mixed_precision = "f16": the scale of the loss, and the number of steps so far that were
  // skipped.
  std::optional<double> loss_scale = {};
  int64_t skipped_steps = 0;
  std::optional<double> tokens_per_second = {};  // of a language model
  // Model FLOPs utilisation: the share of device.peak_tflops that forward and backward pass of the
  // model, without recomputation, take. Empty where the peak is not known.
  std::optional<double> mfu = {};
  MetricValues validation = {};              // of validation.metrics, beside loss and accuracy
  std::optional<double> epoch_seconds = {};  // at the end of an epoch, its validation included
  std::optional<RankCost> cost = {};  // empty while steps warm up, and in asynchronous training
};

// Called by one thread.
class Reporter {
 public:
  virtual ~Reporter() = default;
  // A message that appears once.
  virtual void note(const std::string& text) = 0;
  // Called after every step.
  virtual void step(const Metrics&, int64_t /*step_in_epoch*/, int64_t /*steps_per_epoch*/) {}
  // Called before each of the `batches` of a validation that this rank computes; `batch` counts
  // from 0. The metrics are those of the step before.
  virtual void validation(const Metrics&, int64_t /*batch*/, int64_t /*batches*/) {}
  // Called every log_every_steps steps and after a validation, once for a step.
  virtual void line(const Metrics& metrics) = 0;
  // Called at the end of an epoch, behind the line of its validation, with the values of that
  // validation, if there was one, and the mean loss and the rate of the epoch, without the time of
  // its validations.
  virtual void epoch(const Metrics&) {}
  // Called at the end of the run. Throws DataError if something that was reported could not be
  // written. Until then training goes on, and one warning has been printed.
  virtual void finish() {}
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_REPORTER_H_
