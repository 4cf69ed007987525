// Warns of losses that are not finite or count nothing, or ends the run.
#include "runtime/train/run/loss_checks.h"

#include <cmath>

#include "runtime/error.h"
#include "runtime/train/formatted.h"

namespace runtime::train {

void LossChecks::check(const StepResult& r) {
  if (!std::isfinite(r.loss)) not_finite(r);
  if (r.scale == 0) clipped_to_zero(r);
  if (r.weight == 0) nothing_counts("step " + std::to_string(r.step + 1), "batch");
}

// The square of the norm of a finite gradient can be infinite.
void LossChecks::clipped_to_zero(const StepResult& r) {
  if (overflown_) return;
  overflown_ = true;
  reporter_.note(
      "warning: the norm of the gradient of step " + std::to_string(r.step + 1) +
      " is too large for " + config_.training.dtype +
      " (the sum of its squares is infinite), so that training.max_norm has scaled the gradient "
      "to 0 and the step has changed nothing; normalise the inputs and targets, lower the "
      "initial weights, or clip each number as well (training.max_value)");
}

void LossChecks::nothing_counts(const std::string& what, const std::string& part) {
  if (!uncounted_.insert(part).second) return;
  reporter_.note("warning: " + what + " counts nothing, because every label of the " + part +
                 " is training.ignore_label = " + std::to_string(config_.training.ignore_label) +
                 "; it has no loss, and is left out of means and of the best; give the " + part +
                 " labels that count, or remove training.ignore_label");
}

void LossChecks::not_finite(const StepResult& r) {
  const std::string text =
      "the loss of step " + std::to_string(r.step + 1) + " is " + formatted("%f", r.loss) +
      "; lower optimizer.lr, clip gradients with training.max_norm, or check the data";
  if (config_.debug.stops_at_nan()) throw NumericError(text);
  if (!warned_) reporter_.note("warning: " + text);
  warned_ = true;
}

std::string LossChecks::validation_not_finite(int64_t step, double loss) {
  std::string text =
      "the validation loss after step " + std::to_string(step) + " is " + formatted("%f", loss) +
      "; lower optimizer.lr, clip gradients with training.max_norm, or check the validation data";
  if (config_.debug.stops_at_nan()) return text;
  reporter_.note("warning: " + text);
  return "";
}

}  // namespace runtime::train
