// The loop over steps, epochs, validations and checkpoints of a run.
#include "runtime/train/run/loop.h"

#include <algorithm>
#include <csignal>
#include <vector>

#include "runtime/error.h"
#include "runtime/step/ranks.h"
#include "runtime/system/atomic_file.h"
#include "runtime/train/asynchronous/run.h"
#include "runtime/train/cost_meter.h"
#include "runtime/train/loss_mean.h"
#include "runtime/train/open.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/run/epoch_log.h"
#include "runtime/train/run/loss_checks.h"
#include "runtime/train/run/run_folder.h"
#include "runtime/train/run/slow_ranks.h"
#include "runtime/train/run/stop_agreement.h"
#include "runtime/train/run/validator.h"
#include "runtime/train/schedule.h"

namespace runtime::train {

namespace {

class Loop {
 public:
  Loop(const config::Config& config, const data::DatasetPair& data, StepPrograms& programs,
       Trainer& trainer, Reporter& reporter, const RunOptions& options)
      : config_(config),
        programs_(programs),
        trainer_(trainer),
        reporter_(reporter),
        options_(options),
        stop_(programs.setup(), trainer.steps_done()),
        noted_(programs.notes().size()),
        steps_per_epoch_(open_training_data(data.train)),
        train_size_(data.train->size()),
        schedule_(config, steps_per_epoch_),
        checks_(config, reporter),
        log_(programs, trainer, reporter, checks_, cost_, steps_per_epoch_, noted_, result_),
        validator_(programs, trainer, data.validation, steps_per_epoch_, schedule_, log_, checks_,
                   result_) {
    if (!options.checkpoints.folder.empty()) {
      if (const auto saver = agree_on_saving(options.checkpoints, programs.rank_model()))
        checkpoints_.emplace(config, programs.rank_model(), *data.train, steps_per_epoch_, *saver,
                             options.resumed);
    }
    if (options.resumed != nullptr) resume(options.resumed->manifest.state);
    if (config.profiling.enabled)
      profiler_.emplace(programs, trainer.steps_done(),
                        [&trainer](exec::SpanRecorder* spans) { trainer.record(spans); });
  }

  RunResult run() {
    log_.begin_run();
    cost_.begin(programs_, total());
    while (trainer_.steps_done() < total() && !ended()) {
      const int64_t epoch = trainer_.steps_done() / steps_per_epoch_;
      const int64_t end = (epoch + 1) * steps_per_epoch_;
      log_.begin_epoch();
      asynchronous_ ? items_until(std::min(end, total())) : steps_until(std::min(end, total()));
      if (trainer_.steps_done() == end) log_.end_epoch(validator_.validated() == end);
    }
    cost_.pause();
    if (!ended()) validate_if_due();  // a run that had come to its end may lack its validation
    if (asynchronous_) asynchronous_->close();
    finish_checkpoints();
    log_.take_results(true);
    if (log_.has_unreported() && validator_.validated() != trainer_.steps_done()) log_.line();
    result_.steps = trainer_.steps_done();
    result_.cost = cost_.end();
    log_.end_run();
    if (profiler_) result_.recording = profiler_->take();
    return result_;
  }

 private:
  int64_t total() const {  // steps
    return std::min(schedule_.total_steps(), options_.max_steps.value_or(INT64_MAX));
  }

  // Whether the run has ended before its last step.
  bool ended() const {
    return result_.signal != 0 || !result_.numeric_error.empty() || result_.stopped_early;
  }

  void steps_until(int64_t end) {
    while (trainer_.steps_done() < end && !ended()) {
      if (profiler_ && profiler_->ends_cycle()) cost_.pause();
      exec::SpanRecorder* const spans = profiler_ ? profiler_->begin_step() : nullptr;
      cost_.begin_step();
      one_step(spans);
      if (profiler_) profiler_->end_step();
      validate_if_due();
      const int64_t step = trainer_.steps_done();
      const StopAgreement::Answer answer =
          stop_.ask(wishes(), step, checkpoints_ && checkpoints_->newly_due(step));
      result_.signal = answer.signal;
      if (answer.busy) {
        if (const std::string text = slow_.look(); !text.empty()) reporter_.note(text);
      }
      if (answer.busy && save_if_due(answer.save, *answer.busy) && answer.after_checkpoint)
        result_.signal = SIGUSR1;
    }
  }

  // What this rank has seen itself.
  StopAgreement::Answer wishes() const {
    return {options_.stop ? options_.stop() : 0, checkpoints_ && checkpoints_->minutes_passed(),
            options_.stop_after_checkpoint && options_.stop_after_checkpoint(), busy()};
  }

  void validate_if_due() {
    const int64_t step = trainer_.steps_done();
    if (!validator_.due(step) || validator_.validated() == step) return;
    cost_.pause();
    const std::optional<double> value = validator_.run(step);
    if (value && checkpoints_) checkpoints_->validated(step, *value);
  }

  // A validation reports a line itself, so that no step has two.
  bool line_due(int64_t step) const {
    return step % config_.metrics.log_every_steps == 0 && !validator_.due(step);
  }

  // ---- checkpoints

  // The schedule goes on first: the log begins with the rate of the step before.
  void resume(const SavedState& state) {
    validator_.resume(state);
    log_.resume(state, state.step > 0 ? schedule_.rate(state.step - 1) : 0);
    items_ = state.step * trainer_.split().world_size;
  }

  SavedState state() {
    log_.take_results(true);
    SavedState s;
    s.step = trainer_.steps_done();
    s.log = log_.saved();
    validator_.save(s);
    if (options_.metrics_bytes) s.metrics_bytes = options_.metrics_bytes();
    s.listed_order = options_.resumed != nullptr && options_.resumed->manifest.state.listed_order;
    return s;
  }

  // What the first checkpoint saves must be all that was measured, so that a run that goes on from
  // it decides nothing in another way.
  void decide_all_forms() {
    if (asynchronous_) return;  // another order of updates rounds in another way, too
    const int64_t last = loader_->rows_of_batch(steps_per_epoch_ - 1);
    const int64_t before = (steps_per_epoch_ - 1) * config_.training.global_batch_size;
    for (const auto& form : full_step(programs_)) programs_.compiled(form);
    for (const auto& form : programs_.training_step(last, std::min(last, train_size_ - before)))
      programs_.compiled(form);
    validator_.make_programs();
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
        result_.restored_step = restore_best(folders_of_checkpoints(), *result_.best,
                                             options_.checkpoints, programs_.rank_model());
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
    const auto begin = CostMeter::Clock::now();
    const data::Batch& batch = loader_->next();
    cost_.add_data(CostMeter::Clock::now() - begin);
    return batch;
  }

  // `spans`: where the step is recorded, or nullptr.
  void one_step(exec::SpanRecorder* spans) {
    const exec::HostSpan step(spans, exec::SpanKind::kStep);
    const data::Batch& batch = next_batch(spans);
    const double rate = schedule_.rate(trainer_.steps_done());
    log_.at(batch.epoch, rate);
    trainer_.step(batch, rate);
    const exec::HostSpan rest(spans, exec::SpanKind::kReport);
    log_.add_samples(batch.global_valid);
    log_.take_results(false);
    const int64_t done = trainer_.steps_done();
    log_.at(done);
    if (config_.debug.check_replicas_every > 0 && done % config_.debug.check_replicas_every == 0)
      trainer_.check_replicas();
    reporter_.step(log_.current(), batch.index + 1, steps_per_epoch_);
    cost_.end_step();
    if (line_due(done)) log_.line();
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
      log_.at(trainer_.steps_done());
      if (config_.debug.check_replicas_every > 0) trainer_.check_replicas();
      validate_if_due();
      const bool ends = options_.stop_after_checkpoint && options_.stop_after_checkpoint();
      const std::vector<double> any =
          programs_.setup().maximum({ends ? 1.0 : 0.0, busy() ? 1.0 : 0.0});
      if (save_if_due(trainer_.steps_done() < meeting, any[1] != 0) && any[0] != 0)
        result_.signal = SIGUSR1;
    }
  }

  int item_done(const WorkItem& item) {
    checks_.check({item.step, item.loss, item.weight});
    log_.at(item.epoch, item.learning_rate);
    take_progress();
    const bool due = checkpoints_ && (checkpoints_->minutes_passed() || checkpoints_->is_put_off());
    if (due && !busy()) asynchronous_->pause();
    reporter_.step(log_.current(), log_.step() - item.epoch * steps_per_epoch_, steps_per_epoch_);
    return options_.stop ? options_.stop() : 0;
  }

  // Takes over what all ranks have done; `items` are work items, as many in a step as there are
  // ranks.
  void take_progress() {
    const WorkProgress p = asynchronous_->take_progress();
    if (p.items == 0) return;
    const int ranks = trainer_.split().world_size;
    const LossMean loss = {p.loss * ranks, p.weight, p.items};
    log_.add_loss(loss);
    log_.add_samples(p.samples);
    if (p.weight > 0) result_.last_loss = loss.mean();
    items_ += p.items;
    const int64_t lines = log_.step() / config_.metrics.log_every_steps, step = items_ / ranks;
    log_.at(step);
    const bool passed = step / config_.metrics.log_every_steps > lines;
    if (passed && !validator_.due(step)) log_.line();
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
      options.listed_order = state.listed_order;
      options.first_epoch = state.epoch();
      options.skip = state.step % state.steps_per_epoch;
    }
    loader_.emplace(train, options);
    return loader_->batches_per_epoch();
  }

  const config::Config& config_;
  StepPrograms& programs_;
  Trainer& trainer_;
  Reporter& reporter_;
  const RunOptions& options_;
  StopAgreement stop_;
  const size_t noted_;                  // notes of the programs before this run
  std::optional<data::Loader> loader_;  // either this one or asynchronous_
  std::optional<Asynchronous> asynchronous_;
  const int64_t steps_per_epoch_;
  const int64_t train_size_;
  Schedule schedule_;
  RunResult result_;
  LossChecks checks_;
  CostMeter cost_;
  EpochLog log_;
  Validator validator_;
  std::optional<Checkpoints> checkpoints_;
  std::optional<Profiler> profiler_;
  SlowRankWatch slow_{programs_.setup(), cost_};
  int64_t items_ = 0;  // work items of asynchronous training
};

}  // namespace

RunResult run_training(const config::Config& config, const data::DatasetPair& data,
                       StepPrograms& programs, Trainer& trainer, Reporter& reporter,
                       const RunOptions& options) {
  return Loop(config, data, programs, trainer, reporter, options).run();
}

}  // namespace runtime::train
