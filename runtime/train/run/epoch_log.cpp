// Sums losses and samples, and reports lines and epochs.
#include "runtime/train/run/epoch_log.h"

#include <algorithm>
#include <cmath>

#include "runtime/train/model_flops.h"

namespace runtime::train {

double EpochLog::Span::rate() const {
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  return static_cast<double>(samples) / std::max(elapsed.count(), 1e-9);
}

EpochLog::EpochLog(StepPrograms& programs, Trainer& trainer, Reporter& reporter, LossChecks& checks,
                   CostMeter& cost, int64_t steps_per_epoch, size_t noted, RunResult& result)
    : programs_(programs),
      trainer_(trainer),
      reporter_(reporter),
      checks_(checks),
      cost_(cost),
      steps_per_epoch_(steps_per_epoch),
      result_(result),
      device_(programs.setup().device),
      noted_(noted) {
  if (programs.setup().config.device.peak_tflops > 0) flops_ = model_flops(programs.setup());
}

void EpochLog::resume(const SavedState& state, double rate) {
  line_.loss = state.log.loss;
  line_.samples = state.log.samples;
  metrics_.step = state.step;
  metrics_.loss = std::nan("");  // no step of this run has one yet
  if (state.step > 0) at((state.step - 1) / steps_per_epoch_, rate);
}

void EpochLog::at(int64_t epoch, double rate) {
  metrics_.epoch = epoch;
  metrics_.lr = rate;
}

void EpochLog::begin_epoch() {
  epoch_ = {};
  epoch_.after = trainer_.steps_done();
  if (trainer_.steps_done() % steps_per_epoch_ == 0) epoch_.whole_since = Clock::now();
}

void EpochLog::add_samples(int64_t samples) {
  line_.samples += samples;
  epoch_.samples += samples;
}

void EpochLog::add_loss(const LossMean& loss) {
  epoch_.loss.add(loss);
  line_.loss.add(loss);
}

void EpochLog::take_results(bool wait) {
  while (const std::optional<StepResult> r = trainer_.next_result(wait)) {
    if (r->weight > 0) result_.last_loss = r->loss;
    checks_.check(*r);
    epoch_.loss.add(r->loss, r->weight);
    line_.loss.add(r->loss, r->weight);
  }
}

std::optional<double> EpochLog::epoch_seconds() const {
  if (!epoch_.whole_since || trainer_.steps_done() % steps_per_epoch_ != 0) return std::nullopt;
  return std::chrono::duration<double>(Clock::now() - *epoch_.whole_since).count();
}

void EpochLog::set_rates(Metrics& m, double samples_per_second) const {
  m.samples_per_second = samples_per_second;
  const int64_t labels = programs_.setup().spec.labels;
  if (labels > 1) m.tokens_per_second = samples_per_second * static_cast<double>(labels);
  if (flops_ > 0) m.mfu = model_flops_utilisation(programs_.setup(), flops_, samples_per_second);
}

Metrics EpochLog::current() {
  Metrics m = metrics_;
  m.device = device_.read();
  if (line_.samples == 0) return m;
  if (has_unreported()) m.loss = line_.loss.mean();
  set_rates(m, line_.rate());
  return m;
}

void EpochLog::line() {
  trainer_.confirm_results();
  // If the device is behind, waits for a loss to report.
  if (!has_unreported()) take_results(true);
  report_notes();
  metrics_ = current();
  take_loss_scaling();
  take_cost();
  reporter_.line(metrics_);
  line_ = {};
}

void EpochLog::take_loss_scaling() {
  const std::optional<LossScaling> scaling = trainer_.loss_scaling();
  if (!scaling) return;
  metrics_.loss_scale = scaling->scale;
  metrics_.skipped_steps = scaling->skipped;
}

void EpochLog::take_cost() {
  metrics_.cost.reset();
  const StepTimes now = cost_.so_far();
  const auto steps = static_cast<double>(now.steps - reported_.steps);
  if (steps == 0) return;
  metrics_.cost = {(now.seconds - reported_.seconds) / steps,
                   (now.exposed - reported_.exposed) / steps, (now.data - reported_.data) / steps};
  reported_ = now;
}

// Reports what the programs of step forms that came later say, such as that of the validation.
void EpochLog::report_notes() {
  const std::vector<std::string>& notes = programs_.notes();
  for (; noted_ < notes.size(); ++noted_) reporter_.note("note: " + notes[noted_]);
}

void EpochLog::begin_validation() {
  take_results(true);
  metrics_ = current();
  take_loss_scaling();
  take_cost();
}

void EpochLog::report_validation(const Evaluation& e) {
  report_notes();
  Metrics m = metrics_;
  m.validation_loss = e.loss;
  if (programs_.setup().spec.classes > 0) m.validation_accuracy = e.accuracy;
  m.validation = e.metrics;
  m.epoch_seconds = epoch_seconds();
  validated_metrics_ = m;
  result_.validation_accuracy = m.validation_accuracy;
  reporter_.line(m);
}

void EpochLog::end_epoch(bool validated) {
  take_results(true);
  Metrics m = validated ? validated_metrics_ : current();
  if (!validated) m.epoch_seconds = epoch_seconds();
  if (epoch_.loss.steps > 0) m.loss = epoch_.loss.mean();
  if (epoch_.samples > 0) set_rates(m, epoch_.rate());
  if (m.epoch_seconds) {
    const auto before = static_cast<double>(result_.epochs++);
    result_.epoch_seconds = (result_.epoch_seconds * before + *m.epoch_seconds) / (before + 1);
  }
  reporter_.epoch(m);
}

void EpochLog::end_run() {
  if (epoch_.loss.steps > 0 && trainer_.steps_done() % steps_per_epoch_ != 0) {
    result_.unfinished_loss = epoch_.loss.mean();  // no line was reported of this epoch
    result_.unfinished_after = epoch_.after;
  }
  result_.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  device_.read();
  result_.joules = device_.joules();
  if (result_.cost.steps == 0) return;
  Metrics m;
  set_rates(m, static_cast<double>(programs_.setup().config.training.global_batch_size) /
                   result_.cost.seconds);
  result_.tokens_per_second = m.tokens_per_second;
  result_.mfu = m.mfu;
}

}  // namespace runtime::train
