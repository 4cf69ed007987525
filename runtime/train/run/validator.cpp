// Validates, compares the value with the best one, and decides whether the run goes on.
#include "runtime/train/run/validator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>

#include "runtime/error.h"
#include "runtime/train/open.h"

namespace runtime::train {

Validator::Validator(StepPrograms& programs, Trainer& trainer,
                     std::shared_ptr<const data::Dataset> data, int64_t steps_per_epoch,
                     Schedule& schedule, EpochLog& log, LossChecks& checks, RunResult& result)
    : programs_(programs),
      trainer_(trainer),
      steps_per_epoch_(steps_per_epoch),
      schedule_(schedule),
      log_(log),
      checks_(checks),
      result_(result),
      early_stopping_(programs.setup().config) {
  if (data == nullptr) return;
  const parallel::BatchSplit& split = trainer.split();
  loader_.emplace(std::move(data),
                  validation_loader_options(programs.setup().config, split.rank, split.world_size));
}

void Validator::resume(const SavedState& state) {
  validated_ = state.validated;
  if (state.monitor == programs_.setup().config.validation.monitor) {
    schedule_.set_validations(state.plateau);
    early_stopping_.set_state(state.early_stopping);
    result_.stopped_early = early_stopping_.ended();
    result_.best = state.best_validation;
  }
  if (!result_.best && state.validated > 0) result_.best_after = state.step;
}

void Validator::save(SavedState& state) const {
  state.validated = validated_;
  state.monitor = programs_.setup().config.validation.monitor;
  state.best_validation = result_.best;
  state.plateau = schedule_.validations();
  state.early_stopping = early_stopping_.state();
}

// Whether [validation] asks for one after this step.
bool Validator::is_regular(int64_t step) const {
  const config::Validation& v = programs_.setup().config.validation;
  const int64_t steps = v.every_steps, epochs = v.every_epochs * steps_per_epoch_;
  return (steps > 0 && step % steps == 0) || (epochs > 0 && step % epochs == 0);
}

bool Validator::due(int64_t step) const {
  const config::Validation& v = programs_.setup().config.validation;
  const bool validates = v.every_steps > 0 || v.every_epochs > 0;
  return loader_ && validates && (step >= schedule_.total_steps() || is_regular(step));
}

std::optional<double> Validator::run(int64_t step) {
  const auto begin = std::chrono::steady_clock::now();
  validated_ = result_.validated = step;
  log_.begin_validation();
  const Evaluation e = trainer_.evaluate(
      *loader_, [this](int64_t batch, int64_t batches) { log_.show_validation(batch, batches); });
  result_.validation = e;
  log_.report_validation(e);
  // The next line of a run that goes on from here is that of one that has not ended here.
  log_.end_validation(
      std::chrono::steady_clock::now() - begin,
      is_regular(step) || step % programs_.setup().config.metrics.log_every_steps == 0);
  const std::optional<double> value = take(e);
  decide(value.value_or(std::nan("")));
  return value;
}

// Returns the monitored value, if there is one, after comparing it with the best.
std::optional<double> Validator::take(const Evaluation& e) {
  if (!e.counts) {
    checks_.nothing_counts("the validation after step " + std::to_string(validated_),
                           "validation part");
    return std::nullopt;
  }
  if (!std::isfinite(e.loss)) {
    result_.numeric_error = checks_.validation_not_finite(validated_, e.loss);
    return std::nullopt;
  }
  const double value = monitored(e);
  const double best = result_.best ? result_.best->value : std::nan("");
  if (is_better(value, best, larger_is_better(programs_.setup().config.validation.monitor)))
    result_.best = {value, validated_, e.loss, result_.validation_accuracy};
  return value;
}

// Ranks whose devices round differently must not decide differently.
double Validator::monitored(const Evaluation& e) const {
  const std::string& monitor = programs_.setup().config.validation.monitor;
  if (std::isnan(e.monitored(monitor))) {
    throw DataError("validation.monitor = \"" + monitor +
                    "\" is not defined for the validation samples, which are all of one class, or "
                    "predictions are NaN; use other samples, or monitor = \"loss\"");
  }
  return programs_.setup().maximum({e.monitored(monitor)})[0];
}

// NaN: the validation has no value. One that only ends the run decides nothing, so that a run that
// goes on from here decides as one that has not ended here.
void Validator::decide(double value) {
  if (!is_regular(validated_)) return;
  schedule_.add_validation(value);
  early_stopping_.add(value);
  result_.stopped_early = early_stopping_.ended();
}

void Validator::make_programs() {
  if (!loader_) return;
  const int64_t batches = loader_->batches_per_epoch();
  for (int64_t i = 0; i < batches; i += std::max<int64_t>(1, batches - 1))
    programs_.compiled(
        programs_.setup().whole(step::Purpose::kEvaluation, loader_->rows_of_batch(i)));
}

}  // namespace runtime::train
