// Reports the progress of a run.
#ifndef RUNTIME_TRAIN_REPORTER_H_
#define RUNTIME_TRAIN_REPORTER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/train/metrics/values.h"

namespace runtime::train {

// The load of the whole device, by all its users. What the device does not measure is empty.
struct DeviceLoad {
  std::optional<int> utilisation;  // percent of the time
  std::optional<double> power_watts;
  std::optional<uint64_t> memory_bytes;  // in use
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
};

// The metrics as one JSON object; empty fields are left out.
std::string to_json(const Metrics& metrics);

// Called by one thread.
class Reporter {
 public:
  virtual ~Reporter() = default;
  // A message that appears once.
  virtual void note(const std::string& text) = 0;
  // Called after every step.
  virtual void step(const Metrics& metrics, int64_t step_in_epoch, int64_t steps_per_epoch) = 0;
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

// How a terminal is written to.
struct TerminalStyle {
  bool colour = false;
  std::function<int()> columns = {};  // of the terminal at this moment; empty or 0: unknown
};

// A bar with epoch, step, loss, samples/s (tokens/s for language models) and remaining time,
// redrawn at most ten times a second and cut to the width of the terminal; and a line for each
// validation and each epoch, broken at spaces where it is wider. `warnings` gets the message that
// `out` cannot be written. The streams must outlive the reporter. Equivalent to: verbose = 1 of
// Keras.
std::unique_ptr<Reporter> make_progress_bar(std::ostream& out, std::ostream& warnings,
                                            int64_t epochs, int64_t total_steps,
                                            TerminalStyle style = {});
// One line for each epoch and for each validation within one, and notes. Equivalent to: verbose = 2
// of Keras.
std::unique_ptr<Reporter> make_epoch_lines(std::ostream& out, std::ostream& warnings,
                                           int64_t epochs);
// Nothing but notes that begin with "warning", to `warnings`. Equivalent to: verbose = 0 of Keras.
std::unique_ptr<Reporter> make_silence(std::ostream& warnings);
// One JSON object for each line of metrics to `out`; notes to `notes`.
std::unique_ptr<Reporter> make_json_lines(std::ostream& out, std::ostream& notes);
// Passes every call on to several reporters.
std::unique_ptr<Reporter> make_tee(std::vector<std::unique_ptr<Reporter>> reporters);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_REPORTER_H_
