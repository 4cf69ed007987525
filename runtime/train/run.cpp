// The loop over steps, epochs, validations and checkpoints of a run.
#include "runtime/train/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <set>
#include <vector>

#include "runtime/error.h"
#include "runtime/step/ranks.h"
#include "runtime/system/atomic_file.h"
#include "runtime/train/asynchronous/run.h"
#include "runtime/train/cost_meter.h"
#include "runtime/train/device_meter.h"
#include "runtime/train/formatted.h"
#include "runtime/train/loss_mean.h"
#include "runtime/train/model_flops.h"
#include "runtime/train/open.h"
#include "runtime/train/progress.h"
#include "runtime/train/run_folder.h"
#include "runtime/train/schedule.h"
#include "runtime/train/step_programs.h"
#include "runtime/train/stop_agreement.h"

namespace runtime::train {

namespace {

using Clock = std::chrono::steady_clock;

class Run {
 public:
  Run(const config::Config& config, const data::DatasetPair& data, StepPrograms& programs,
      Trainer& trainer, Reporter& reporter, const RunOptions& options)
      : config_(config),
        programs_(programs),
        trainer_(trainer),
        reporter_(reporter),
        options_(options),
        stop_(programs, trainer.steps_done()),
        device_(programs.device()),
        noted_(programs.notes().size()),
        steps_per_epoch_(open_training_data(data.train)),
        schedule_(config, steps_per_epoch_),
        total_(std::min(schedule_.total_steps(), options.max_steps.value_or(INT64_MAX))),
        train_size_(data.train->size()),
        early_stopping_(config) {
    if (config.device.peak_tflops > 0) flops_ = model_flops(programs);
    if (data.validation != nullptr) {
      validation_.emplace(data.validation, validation_loader_options(config, trainer.split().rank,
                                                                     trainer.split().world_size));
    }
    if (!options.checkpoints.folder.empty()) {
      if (const auto saver = agree_on_saving(options.checkpoints, programs))
        checkpoints_.emplace(config, programs, *data.train, steps_per_epoch_, *saver,
                             options.resumed);
    }
    if (options.resumed != nullptr) resume(options.resumed->manifest.state);
    if (config.profiling.enabled) profiler_.emplace(programs, trainer);
  }

  RunResult run() {
    begin_ = mark_ = Clock::now();
    cost_.begin(programs_, total_);
    while (trainer_.steps_done() < total_ && !ended()) {
      const int64_t epoch = trainer_.steps_done() / steps_per_epoch_;
      const int64_t end = (epoch + 1) * steps_per_epoch_;
      begin_epoch();
      asynchronous_ ? items_until(std::min(end, total_)) : steps_until(std::min(end, total_));
      if (trainer_.steps_done() == end) end_epoch();
    }
    cost_.pause();
    if (!ended()) validate_if_due();  // a run that had come to its end may lack its validation
    if (asynchronous_) asynchronous_->close();
    finish_checkpoints();
    take_results(true);
    if (interval_.steps > 0 && validated_ != trainer_.steps_done()) log();
    result_.steps = trainer_.steps_done();
    result_.cost = cost_.end();
    take_epoch_so_far();
    take_totals();
    if (profiler_) result_.recording = profiler_->take();
    return result_;
  }

 private:
  // Whether the run has ended before its last step.
  bool ended() const {
    return result_.signal != 0 || !result_.numeric_error.empty() || result_.stopped_early;
  }

  // ---- epochs

  // An epoch that a run has gone on in has no time.
  void begin_epoch() {
    epoch_begin_.reset();
    epoch_ = {};
    epoch_samples_ = 0;
    epoch_mark_ = Clock::now();
    epoch_after_ = trainer_.steps_done();
    if (trainer_.steps_done() % steps_per_epoch_ == 0) epoch_begin_ = Clock::now();
  }

  std::optional<double> epoch_seconds() const {
    if (!epoch_begin_ || trainer_.steps_done() % steps_per_epoch_ != 0) return std::nullopt;
    return std::chrono::duration<double>(Clock::now() - *epoch_begin_).count();
  }

  void end_epoch() {
    take_results(true);
    const bool validated = validated_ == trainer_.steps_done();
    Metrics m = validated ? validated_metrics_ : current();
    if (!validated) m.epoch_seconds = epoch_seconds();
    if (epoch_.steps > 0) m.loss = epoch_.mean();
    if (epoch_samples_ > 0) set_rates(m, rate_of(epoch_samples_, epoch_mark_));
    if (m.epoch_seconds) {
      const auto before = static_cast<double>(result_.epochs++);
      result_.epoch_seconds = (result_.epoch_seconds * before + *m.epoch_seconds) / (before + 1);
    }
    reporter_.epoch(m);
  }

  // The loss of an epoch that has not come to its end, of which no line was reported.
  void take_epoch_so_far() {
    if (epoch_.steps == 0 || trainer_.steps_done() % steps_per_epoch_ == 0) return;
    result_.unfinished_loss = epoch_.mean();
    result_.unfinished_after = epoch_after_;
  }

  void take_totals() {
    result_.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    device_.read();
    result_.joules = device_.joules();
    if (result_.cost.steps == 0) return;
    Metrics m;
    set_rates(m, static_cast<double>(config_.training.global_batch_size) / result_.cost.seconds);
    result_.tokens_per_second = m.tokens_per_second;
    result_.mfu = m.mfu;
  }

  void set_rates(Metrics& m, double samples_per_second) const {
    m.samples_per_second = samples_per_second;
    const int64_t labels = programs_.spec().labels;
    if (labels > 1) m.tokens_per_second = samples_per_second * static_cast<double>(labels);
    if (flops_ > 0) m.mfu = model_flops_utilisation(programs_, flops_, samples_per_second);
  }

  void steps_until(int64_t end) {
    while (trainer_.steps_done() < end && !ended()) {
      if (profiler_ && profiler_->ends_cycle()) cost_.pause();
      exec::SpanRecorder* const spans = profiler_ ? profiler_->begin_step() : nullptr;
      cost_.begin_step();
      one_step(spans);
      cost_.end_step();
      if (profiler_) profiler_->end_step();
      validate_if_due();
      const int64_t step = trainer_.steps_done();
      const StopAgreement::Answer answer =
          stop_.ask(wishes(), step, checkpoints_ && checkpoints_->newly_due(step));
      result_.signal = answer.signal;
      if (answer.busy && save_if_due(answer.save, *answer.busy) && answer.after_checkpoint)
        result_.signal = SIGUSR1;
    }
  }

  // What this rank has seen itself.
  StopAgreement::Answer wishes() const {
    return {options_.stop ? options_.stop() : 0, checkpoints_ && checkpoints_->minutes_passed(),
            options_.stop_after_checkpoint && options_.stop_after_checkpoint(), busy()};
  }

  // Whether [validation] asks for one after this step.
  bool validation_is_regular(int64_t step) const {
    const int64_t steps = config_.validation.every_steps,
                  epochs = config_.validation.every_epochs * steps_per_epoch_;
    return (steps > 0 && step % steps == 0) || (epochs > 0 && step % epochs == 0);
  }

  // A run that ends between two validations ends with one, but not where it is only cut short.
  bool validation_due(int64_t step) const {
    const bool validates =
        config_.validation.every_steps > 0 || config_.validation.every_epochs > 0;
    return validation_ && validates &&
           (step >= schedule_.total_steps() || validation_is_regular(step));
  }

  void validate_if_due() {
    if (validation_due(trainer_.steps_done())) validate();
  }

  // A validation reports a line itself, so that no step has two.
  bool line_due(int64_t step) const {
    return step % config_.metrics.log_every_steps == 0 && !validation_due(step);
  }

  // ---- checkpoints

  void resume(const SavedState& state) {
    interval_ = state.log.loss;
    interval_samples_ = state.log.samples;
    validated_ = state.validated;
    if (state.monitor == config_.validation.monitor) {
      schedule_.set_validations(state.plateau);
      early_stopping_.set_state(state.early_stopping);
      result_.stopped_early = early_stopping_.ended();
      result_.best = state.best_validation;
    }
    if (!result_.best && state.validated > 0) result_.best_after = state.step;
    metrics_.step = state.step;
    metrics_.loss = std::nan("");  // no step of this run has one yet
    items_ = state.step * trainer_.split().world_size;
    if (state.step == 0) return;
    metrics_.epoch = (state.step - 1) / steps_per_epoch_;
    metrics_.lr = schedule_.rate(state.step - 1);
  }

  SavedState state() {
    take_results(true);
    SavedState s;
    s.step = trainer_.steps_done();
    s.log = {interval_, interval_samples_};
    s.validated = validated_;
    s.monitor = config_.validation.monitor;
    s.best_validation = result_.best;
    s.plateau = schedule_.validations();
    s.early_stopping = early_stopping_.state();
    if (options_.metrics_bytes) s.metrics_bytes = options_.metrics_bytes();
    return s;
  }

  // What the first checkpoint saves must be all that was measured, so that a run that goes on from
  // it decides nothing in another way.
  void decide_all_forms() {
    if (asynchronous_) return;  // another order of updates rounds in another way, too
    const int64_t last = loader_->rows_of_batch(steps_per_epoch_ - 1);
    const int64_t before = (steps_per_epoch_ - 1) * config_.training.global_batch_size;
    for (const auto& form : programs_.full_step()) programs_.get(form);
    for (const auto& form : programs_.training_step(last, std::min(last, train_size_ - before)))
      programs_.get(form);
    for (int64_t i = 0; validation_ && i < validation_->batches_per_epoch();
         i += std::max<int64_t>(1, validation_->batches_per_epoch() - 1)) {
      programs_.get(programs_.whole(step::Purpose::kEvaluation, validation_->rows_of_batch(i)));
    }
  }

  bool busy() const { return checkpoints_ && checkpoints_->busy(); }

  // Saves, or puts off, what is due; `busy`: a rank still writes. Returns whether it saves.
  bool save_if_due(bool minutes_passed, bool busy) {
    const int64_t step = trainer_.steps_done();
    if (!checkpoints_ || ended() || !checkpoints_->due(step, minutes_passed)) return false;
    if (busy && checkpoints_->put_off(step)) return false;
    if (busy) checkpoints_->wait();
    save();
    return true;
  }

  // A run that has come to its end runs no other form.
  void save() {
    cost_.pause();
    if (trainer_.steps_done() < schedule_.total_steps()) decide_all_forms();
    checkpoints_->save(state());
  }

  // A loss that is not finite leaves nothing worth saving; what was begun is completed.
  void finish_checkpoints() {
    if (!checkpoints_) return;
    const bool finite = result_.numeric_error.empty();
    try {
      if (finite && !checkpoints_->has(trainer_.steps_done())) {
        checkpoints_->wait();
        save();
      }
      checkpoints_->finish();
      if (config_.early_stopping.restore_best && result_.signal == 0 && finite && result_.best)
        result_.restored_step =
            restore_best(folders_of_checkpoints(), *result_.best, options_.checkpoints, programs_);
    } catch (const DataError& error) {
      result_.checkpoint_error = error.what();
    }
  }

  // A run that goes on in another folder may have its best checkpoint in the one before.
  std::vector<std::filesystem::path> folders_of_checkpoints() const {
    std::vector<std::filesystem::path> folders = {options_.checkpoints.folder};
    if (options_.resumed != nullptr) folders.push_back(options_.resumed->path().parent_path());
    return folders;
  }

  const data::Batch& next_batch(exec::SpanRecorder* spans) {
    const exec::HostSpan span(spans, exec::SpanKind::kData);
    return loader_->next();
  }

  // `spans`: where the step is recorded, or nullptr.
  void one_step(exec::SpanRecorder* spans) {
    const exec::HostSpan step(spans, exec::SpanKind::kStep);
    const data::Batch& batch = next_batch(spans);
    metrics_.epoch = batch.epoch;
    metrics_.lr = schedule_.rate(trainer_.steps_done());
    trainer_.step(batch, metrics_.lr);
    const exec::HostSpan rest(spans, exec::SpanKind::kReport);
    interval_samples_ += batch.global_valid;
    epoch_samples_ += batch.global_valid;
    take_results(false);
    metrics_.step = trainer_.steps_done();
    if (config_.debug.check_replicas_every > 0 &&
        metrics_.step % config_.debug.check_replicas_every == 0)
      trainer_.check_replicas();
    reporter_.step(current(), batch.index + 1, steps_per_epoch_);
    if (line_due(metrics_.step)) log();
  }

  // Asynchronous training: every rank goes on by itself, and all meet where the run is saved and at
  // the end.
  void items_until(int64_t end) {
    while (trainer_.steps_done() < end && !ended()) {
      const int64_t meeting =
          checkpoints_ ? std::min(end, checkpoints_->next_due(trainer_.steps_done())) : end;
      result_.signal = asynchronous_->run(
          meeting, schedule_, [this](const WorkItem& item) { return item_done(item); },
          profiler_ ? &*profiler_ : nullptr);
      take_progress();
      metrics_.step = trainer_.steps_done();
      if (config_.debug.check_replicas_every > 0) trainer_.check_replicas();
      validate_if_due();
      const bool ends = options_.stop_after_checkpoint && options_.stop_after_checkpoint();
      const std::vector<double> any = programs_.maximum({ends ? 1.0 : 0.0, busy() ? 1.0 : 0.0});
      if (save_if_due(metrics_.step < meeting, any[1] != 0) && any[0] != 0)
        result_.signal = SIGUSR1;
    }
  }

  int item_done(const WorkItem& item) {
    check_loss({item.step, item.loss, item.weight});
    metrics_.epoch = item.epoch;
    metrics_.lr = item.learning_rate;
    take_progress();
    const bool due = checkpoints_ && (checkpoints_->minutes_passed() || checkpoints_->is_put_off());
    if (due && !busy()) asynchronous_->pause();
    reporter_.step(current(), metrics_.step - item.epoch * steps_per_epoch_, steps_per_epoch_);
    return options_.stop ? options_.stop() : 0;
  }

  // Takes over what all ranks have done; `items` are work items, as many in a step as there are
  // ranks.
  void take_progress() {
    const WorkProgress p = asynchronous_->take_progress();
    if (p.items == 0) return;
    const int ranks = trainer_.split().world_size;
    const LossMean loss = {p.loss * ranks, p.weight, p.items};
    epoch_.add(loss);
    interval_.add(loss);
    interval_samples_ += p.samples;
    epoch_samples_ += p.samples;
    if (p.weight > 0) result_.last_loss = loss.mean();
    items_ += p.items;
    const int64_t lines = metrics_.step / config_.metrics.log_every_steps;
    metrics_.step = items_ / ranks;
    const bool passed = metrics_.step / config_.metrics.log_every_steps > lines;
    if (passed && !validation_due(metrics_.step)) log();
  }

  void take_results(bool wait) {
    while (const std::optional<StepResult> r = trainer_.next_result(wait)) {
      if (r->weight > 0) result_.last_loss = r->loss;
      check_loss(*r);
      epoch_.add(r->loss, r->weight);
      interval_.add(r->loss, r->weight);
    }
  }

  void check_loss(const StepResult& r) {
    if (!std::isfinite(r.loss)) not_finite(r);
    if (r.scale == 0) clipped_to_zero(r);
    if (r.weight == 0) nothing_counts("step " + std::to_string(r.step + 1), "batch");
  }

  // The square of the norm of a finite gradient can be infinite. Said once.
  void clipped_to_zero(const StepResult& r) {
    if (overflown_) return;
    overflown_ = true;
    reporter_.note(
        "warning: the norm of the gradient of step " + std::to_string(r.step + 1) +
        " is too large for " + config_.training.dtype +
        " (the sum of its squares is infinite), so that training.max_norm has scaled the gradient "
        "to 0 and the step has changed nothing; normalise the inputs and targets, lower the "
        "initial weights, or clip each number as well (training.max_value)");
  }

  // `part`: what has no label that counts. Said once.
  void nothing_counts(const std::string& what, const std::string& part) {
    if (!uncounted_.insert(part).second) return;
    reporter_.note("warning: " + what + " counts nothing, because every label of the " + part +
                   " is training.ignore_label = " + std::to_string(config_.training.ignore_label) +
                   "; it has no loss, and is left out of means and of the best; give the " + part +
                   " labels that count, or remove training.ignore_label");
  }

  void not_finite(const StepResult& r) {
    const std::string text =
        "the loss of step " + std::to_string(r.step + 1) + " is " + formatted("%f", r.loss) +
        "; lower optimizer.lr, clip gradients with training.max_norm, or check the data";
    if (config_.debug.stops_at_nan()) throw NumericError(text);
    if (!warned_) reporter_.note("warning: " + text);
    warned_ = true;
  }

  // The metrics since the last line.
  Metrics current() {
    Metrics m = metrics_;
    m.device = device_.read();
    if (interval_samples_ == 0) return m;
    if (interval_.steps > 0) m.loss = interval_.mean();
    set_rates(m, rate_of(interval_samples_, mark_));
    return m;
  }

  // Samples a second since then.
  static double rate_of(int64_t samples, Clock::time_point since) {
    const std::chrono::duration<double> elapsed = Clock::now() - since;
    return static_cast<double>(samples) / std::max(elapsed.count(), 1e-9);
  }

  void log() {
    trainer_.confirm_results();
    // If the device is behind, waits for a loss to report.
    if (interval_.steps == 0) take_results(true);
    report_notes();
    metrics_ = current();
    take_loss_scaling();
    reporter_.line(metrics_);
    restart_interval();
  }

  void take_loss_scaling() {
    const std::optional<LossScaling> scaling = trainer_.loss_scaling();
    if (!scaling) return;
    metrics_.loss_scale = scaling->scale;
    metrics_.skipped_steps = scaling->skipped;
  }

  // Reports what the programs of step forms that came later say, such as that of the validation.
  void report_notes() {
    const std::vector<std::string>& notes = programs_.notes();
    for (; noted_ < notes.size(); ++noted_) reporter_.note("note: " + notes[noted_]);
  }

  void restart_interval() {
    interval_ = {};
    interval_samples_ = 0;
    mark_ = Clock::now();
  }

  // Opens the loader and returns the number of steps in an epoch.
  int64_t open_training_data(const std::shared_ptr<const data::Dataset>& train) {
    if (step::is_asynchronous(config_, trainer_.split().world_size)) {
      asynchronous_.emplace(config_, train, programs_, trainer_, options_.resumed);
      return asynchronous_->batches_per_epoch();
    }
    data::LoaderOptions options = train_loader_options(config_, trainer_.split());
    if (options_.resumed != nullptr) {
      const SavedState& state = options_.resumed->manifest.state;
      options.first_epoch = state.epoch();
      options.skip = state.step % state.steps_per_epoch;
    }
    loader_.emplace(train, options);
    return loader_->batches_per_epoch();
  }

  void validate() {
    const int64_t step = trainer_.steps_done();
    if (validated_ == step) return;
    cost_.pause();
    const auto begin = Clock::now();
    validated_ = result_.validated = step;
    take_results(true);
    metrics_ = current();
    take_loss_scaling();
    const Evaluation e = trainer_.evaluate(*validation_, [this](int64_t batch, int64_t batches) {
      reporter_.validation(metrics_, batch, batches);
    });
    report_notes();
    result_.validation = e;
    report_validation(e);
    // The next line of a run that goes on from here is that of one that has not ended here.
    if (validation_is_regular(step) || step % config_.metrics.log_every_steps == 0)
      restart_interval();
    epoch_mark_ += Clock::now() - begin;
    take_validation(e);
  }

  void report_validation(const Evaluation& e) {
    Metrics m = metrics_;
    m.validation_loss = e.loss;
    if (programs_.spec().classes > 0) m.validation_accuracy = e.accuracy;
    m.validation = e.metrics;
    m.epoch_seconds = epoch_seconds();
    validated_metrics_ = m;
    result_.validation_accuracy = m.validation_accuracy;
    reporter_.line(m);
  }

  void take_validation(const Evaluation& e) {
    if (!e.counts) {
      nothing_counts("the validation after step " + std::to_string(validated_), "validation part");
    } else if (!std::isfinite(e.loss)) {
      validation_not_finite(e.loss);
    } else {
      return take_monitored(e);
    }
    decide(std::nan(""));
  }

  void take_monitored(const Evaluation& e) {
    const std::string& monitor = config_.validation.monitor;
    if (std::isnan(e.monitored(monitor))) {
      throw DataError(
          "validation.monitor = \"" + monitor +
          "\" is not defined for the validation samples, which are all of one class, or "
          "predictions are NaN; use other samples, or monitor = \"loss\"");
    }
    // Ranks whose devices round differently must not decide differently.
    const double value = programs_.maximum({e.monitored(monitor)})[0];
    const double best = result_.best ? result_.best->value : std::nan("");
    if (is_better(value, best, larger_is_better(monitor)))
      result_.best = {value, validated_, e.loss, validated_metrics_.validation_accuracy};
    if (checkpoints_) checkpoints_->validated(validated_, value);
    decide(value);
  }

  // NaN: the validation has no value. One that only ends the run decides nothing, so that a run
  // that goes on from here decides as one that has not ended here.
  void decide(double value) {
    if (!validation_is_regular(validated_)) return;
    schedule_.add_validation(value);
    early_stopping_.add(value);
    result_.stopped_early = early_stopping_.ended();
  }

  // The loss is the same on every rank, so all of them end after the same step.
  void validation_not_finite(double loss) {
    const std::string text =
        "the validation loss after step " + std::to_string(trainer_.steps_done()) + " is " +
        formatted("%f", loss) +
        "; lower optimizer.lr, clip gradients with training.max_norm, or check the validation data";
    if (config_.debug.stops_at_nan()) {
      result_.numeric_error = text;
    } else {
      reporter_.note("warning: " + text);
    }
  }

  const config::Config& config_;
  StepPrograms& programs_;
  Trainer& trainer_;
  Reporter& reporter_;
  const RunOptions& options_;
  StopAgreement stop_;
  DeviceMeter device_;
  size_t noted_;                        // notes of the programs that have been reported
  std::optional<data::Loader> loader_;  // either this one or asynchronous_
  std::optional<Asynchronous> asynchronous_;
  std::optional<data::Loader> validation_;
  const int64_t steps_per_epoch_;
  Schedule schedule_;
  int64_t total_;
  const int64_t train_size_;
  EarlyStopping early_stopping_;
  std::optional<Checkpoints> checkpoints_;
  Metrics metrics_;
  RunResult result_;
  CostMeter cost_;
  Clock::time_point begin_, mark_;
  double flops_ = 0;  // of the model for one sample; 0: not needed
  std::optional<Clock::time_point> epoch_begin_;
  Clock::time_point epoch_mark_;  // the begin of the epoch's training, validations left out
  LossMean epoch_, interval_;
  int64_t epoch_samples_ = 0, epoch_after_ = 0;  // epoch_after_: the step that it goes on after
  Metrics validated_metrics_;
  std::optional<Profiler> profiler_;
  int64_t interval_samples_ = 0, items_ = 0;
  int64_t validated_ = 0;  // number of steps at the last validation
  bool warned_ = false, overflown_ = false;
  std::set<std::string> uncounted_;  // what has been said to count nothing
};

}  // namespace

RunResult run_training(const config::Config& config, const data::DatasetPair& data,
                       StepPrograms& programs, Trainer& trainer, Reporter& reporter,
                       const RunOptions& options) {
  return Run(config, data, programs, trainer, reporter, options).run();
}

}  // namespace runtime::train
