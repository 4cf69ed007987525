// Reports the progress of a run.
#ifndef RUNTIME_TRAIN_REPORTER_H_
#define RUNTIME_TRAIN_REPORTER_H_

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  int64_t epoch = 0;  // from 0
  double loss = 0;    // mean since the previous line
  double lr = 0;
  double samples_per_second = 0;
  std::optional<double> validation_loss, validation_accuracy;
  DeviceLoad device = {};
  // With mixed_precision = "f16": the scale of the loss, and the number of steps so far that were
  // skipped.
  std::optional<double> loss_scale = {};
  int64_t skipped_steps = 0;
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
  // Called every log_every_steps steps and at the end of an epoch.
  virtual void line(const Metrics& metrics) = 0;
  // Called at the end of the run. Throws DataError if something that was reported could not be
  // written. Until then training goes on, and one warning has been printed.
  virtual void finish() {}
};

// A bar with epoch, step, loss, samples/s and remaining time, redrawn at most ten times a second.
// `warnings` gets the message that `out` cannot be written. The streams must outlive the reporter.
std::unique_ptr<Reporter> make_progress_bar(std::ostream& out, std::ostream& warnings,
                                            int64_t epochs, int64_t total_steps);
// One JSON object for each line of metrics to `out`; notes to `notes`.
std::unique_ptr<Reporter> make_json_lines(std::ostream& out, std::ostream& notes);
// Passes every call on to several reporters.
std::unique_ptr<Reporter> make_tee(std::vector<std::unique_ptr<Reporter>> reporters);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_REPORTER_H_
