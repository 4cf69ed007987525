// The formulas of the learning rate, by step.
#include "runtime/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/config/choices.h"
#include "runtime/row_of.h"

namespace runtime::train {

namespace {

// A half cosine from 1 at p = 0 to 0 at p = 1.
double half_cosine(double p) { return (1 + std::cos(std::numbers::pi * p)) / 2; }

// A step of a run, for the schedule of which its members are the arguments.
struct At {
  const config::LrScheduler& s;
  int64_t step, total, steps_per_epoch;
  double start, end;  // the rates that a decay begins and ends with

  int64_t epoch() const { return step / steps_per_epoch; }
  int64_t stage() const { return epoch() / s.step_size; }

  // The progress from step `begin` to the end of the decay, from 0 to 1.
  double progress(int64_t begin) const {
    const int64_t last = s.decay_steps > 0 ? s.decay_steps : total;
    const auto whole = static_cast<double>(std::max<int64_t>(1, last - begin));
    return std::clamp(static_cast<double>(step - begin) / whole, 0.0, 1.0);
  }
  double progress() const { return progress(s.warmup_steps); }

  // The progress within a period, from 0 to just below 1.
  double progress_in_period() const {
    int64_t length = s.period_steps, at = std::max<int64_t>(0, step - s.warmup_steps);
    while (s.period_factor > 1 && at >= length) {
      at -= length;
      length *= s.period_factor;
    }
    return static_cast<double>(at % length) / static_cast<double>(length);
  }

  // The rate after so many decays by gamma.
  double decayed(double decays) const { return std::max(end, start * std::pow(s.gamma, decays)); }

  // The rate at this share of the way from min_lr to lr.
  double at_height(double share) const { return end + (start - end) * share; }
};

double exponential(const At& a) {
  return a.decayed(a.s.decay_steps > 0
                       ? static_cast<double>(a.step) / static_cast<double>(a.s.decay_steps)
                       : static_cast<double>(a.epoch()));
}

double multi_step(const At& a) {
  const auto passed = std::count_if(a.s.milestones.begin(), a.s.milestones.end(),
                                    [&](int64_t milestone) { return milestone <= a.epoch(); });
  return a.decayed(static_cast<double>(passed));
}

double warmup_stable_decay(const At& a) {
  const double late = a.progress(a.s.warmup_steps + a.s.stable_steps);
  return a.at_height(row_of<double>("lr_scheduler.decay", a.s.decay,
                                    {{"linear", 1 - late}, {"cosine", half_cosine(late)}}));
}

// Up from first_factor to 1 and down to last_factor; the last step has the last rate.
double one_cycle(const At& a) {
  const int64_t steps = a.s.decay_steps > 0 ? a.s.decay_steps : a.total;
  const double up = a.s.warmup_share * static_cast<double>(steps) - 1,
               last = static_cast<double>(steps - 1), at = static_cast<double>(a.step);
  const double down = last > up ? std::min(1.0, (at - up) / (last - up)) : 1;
  const double factor = at <= up ? 1 + (a.s.first_factor - 1) * half_cosine(up > 0 ? at / up : 1)
                                 : a.s.last_factor + (1 - a.s.last_factor) * half_cosine(down);
  return std::max(a.end, a.start * factor);
}

double constant(const At& a) { return a.start; }

// The rate of each schedule, without warm-up.
constexpr Row<double (*)(const At&)> kSchedules[] = {
    {"constant", constant},
    {"step", [](const At& a) { return a.decayed(static_cast<double>(a.stage())); }},
    {"multi_step", multi_step},
    {"exponential", exponential},
    {"cosine", [](const At& a) { return a.at_height(half_cosine(a.progress())); }},
    {"cosine_restarts",
     [](const At& a) { return a.at_height(half_cosine(a.progress_in_period())); }},
    {"linear", [](const At& a) { return a.at_height(1 - a.progress()); }},
    {"polynomial", [](const At& a) { return a.at_height(std::pow(1 - a.progress(), a.s.power)); }},
    {"one_cycle", one_cycle},
    {"warmup_stable_decay", warmup_stable_decay},
    {"plateau", constant}};

// optimizer.lr, scaled with the global batch.
double base_rate(const config::Config& config) {
  const config::LrScheduler& scheduler = config.lr_scheduler;
  const double factor = static_cast<double>(config.training.global_batch_size) /
                        static_cast<double>(scheduler.reference_batch_size);
  return config.optimizer.lr *
         row_of<double>("lr_scheduler.scale_with_batch", scheduler.scale_with_batch,
                        {{"none", 1}, {"linear", factor}, {"sqrt", std::sqrt(factor)}});
}

}  // namespace

std::vector<std::string> written_schedules() { return names_of_rows(kSchedules); }

Schedule::Schedule(const config::Config& config, int64_t steps_per_epoch)
    : scheduler_(config.lr_scheduler),
      larger_is_better_(larger_is_better(config.validation.monitor)),
      steps_per_epoch_(steps_per_epoch),
      total_(config.training.steps > 0
                 ? config.training.steps
                 : std::max<int64_t>(config.training.epochs, 1) * steps_per_epoch),
      start_(base_rate(config)),
      end_(std::min(scheduler_.min_lr, start_)) {}

double Schedule::rate(int64_t step) const {
  double rate = find_row("lr_scheduler.name", scheduler_.name, kSchedules)
                    .value({scheduler_, step, total_, steps_per_epoch_, start_, end_});
  if (step < scheduler_.warmup_steps)
    rate *= static_cast<double>(step + 1) / static_cast<double>(scheduler_.warmup_steps);
  return rate * validations_.factor;
}

void Schedule::add_validation(double value) {
  if (!config::schedule_of(scheduler_).validates) return;
  ProgressState& v = validations_;
  const double margin = scheduler_.threshold * std::abs(v.best);
  const bool better = is_better(value, v.best, larger_is_better_, margin);
  if (better) v.best = value;
  v.bad = better ? 0 : v.bad + 1;
  if (v.cooldown > 0) {
    --v.cooldown;
    v.bad = 0;
  }
  if (v.bad <= scheduler_.patience) return;
  v.factor = std::max(v.factor * scheduler_.gamma, start_ > 0 ? scheduler_.min_lr / start_ : 0);
  v.cooldown = scheduler_.cooldown;
  v.bad = 0;
}

}  // namespace runtime::train
