// What a run tells while it goes on.
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

// Of the whole device, whoever uses it; what it does not know is left out.
struct DeviceLoad {
  std::optional<int> utilisation;  // percent of the time
  std::optional<double> power_watts;
  std::optional<uint64_t> memory_bytes;  // in use
};

// One line of metrics: a moment of training, or the end of an epoch (then with validation, where
// there is one).
struct Metrics {
  int64_t step = 0;   // steps done
  int64_t epoch = 0;  // from 0
  double loss = 0;    // mean since the previous line
  double lr = 0;
  double samples_per_second = 0;
  std::optional<double> validation_loss, validation_accuracy;
  DeviceLoad device = {};
  // With mixed_precision = "f16": the scale of the loss and steps so far without an update.
  std::optional<double> loss_scale = {};
  int64_t skipped_steps = 0;
};

std::string to_json(const Metrics& metrics);

// One thread.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void note(const std::string& text) = 0;  // something worth knowing, once
  virtual void step(const Metrics& metrics, int64_t step_in_epoch,
                    int64_t steps_per_epoch) = 0;  // every step
  virtual void line(
      const Metrics& metrics) = 0;  // every log_every_steps and at the end of an epoch
  // At the end of the run. Throws DataError if something that was reported could not be written;
  // until then training goes on without it, and a warning has said so once.
  virtual void finish() {}
};

// A bar with epoch, step, loss, samples/s and the remaining time, redrawn at most ten times a
// second. `warnings`: where it is said that `out` cannot be written.
std::unique_ptr<Reporter> make_progress_bar(std::ostream& out, std::ostream& warnings,
                                            int64_t epochs, int64_t total_steps);
// One JSON object a line.
std::unique_ptr<Reporter> make_json_lines(std::ostream& out, std::ostream& notes);
// Passes everything on to several.
std::unique_ptr<Reporter> make_tee(std::vector<std::unique_ptr<Reporter>> reporters);
// Appends the lines to a file. Throws DataError if it cannot be opened.
std::unique_ptr<Reporter> make_metrics_file(const std::string& path, std::ostream& warnings);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_REPORTER_H_
