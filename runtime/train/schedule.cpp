// The formulas of the learning rate, by step.
#include "runtime/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "runtime/row_of.h"

namespace runtime::train {

namespace {

constexpr const char* kNameKey = "lr_scheduler.name";

// A half cosine from 1 at p = 0 to 0 at p = 1.
double half_cosine(double p) { return (1 + std::cos(std::numbers::pi * p)) / 2; }

// The progress from step `begin` to the end of the decay, from 0 to 1.
double progress(const config::LrScheduler& scheduler, int64_t begin, int64_t step, int64_t total) {
  const int64_t end = scheduler.decay_steps > 0 ? scheduler.decay_steps : total;
  const auto whole = static_cast<double>(std::max<int64_t>(1, end - begin));
  return std::clamp(static_cast<double>(step - begin) / whole, 0.0, 1.0);
}

// The decays by gamma so far; those of "exponential" come gradually if decay_steps is given.
double decays(const config::LrScheduler& scheduler, int64_t step, int64_t steps_per_epoch) {
  const int64_t epoch = step / steps_per_epoch;
  const double gradual = scheduler.decay_steps > 0 ? static_cast<double>(step) /
                                                         static_cast<double>(scheduler.decay_steps)
                                                   : static_cast<double>(epoch);
  const auto passed = std::count_if(scheduler.milestones.begin(), scheduler.milestones.end(),
                                    [&](int64_t milestone) { return milestone <= epoch; });
  return row_of<double>(kNameKey, scheduler.name,
                        {{"exponential", gradual},
                         {"step", static_cast<double>(epoch / scheduler.step_size)},
                         {"multi_step", static_cast<double>(passed)}});
}

// The progress within a period, from 0 to just below 1.
double progress_in_period(const config::LrScheduler& scheduler, int64_t step) {
  int64_t length = scheduler.period_steps;
  while (scheduler.period_factor > 1 && step >= length) {
    step -= length;
    length *= scheduler.period_factor;
  }
  return static_cast<double>(step % length) / static_cast<double>(length);
}

// The share of the way down that "warmup_stable_decay" has not gone.
double late_decay(const config::LrScheduler& s, int64_t step, int64_t total) {
  const double late = progress(s, s.warmup_steps + s.stable_steps, step, total);
  return row_of<double>("lr_scheduler.decay", s.decay,
                        {{"linear", 1 - late}, {"cosine", half_cosine(late)}});
}

// The share of the way from min_lr to lr at which the rate is.
double height(const config::LrScheduler& s, int64_t step, int64_t total) {
  const double p = progress(s, s.warmup_steps, step, total);
  const int64_t decaying = std::max<int64_t>(0, step - s.warmup_steps);
  return row_of<std::function<double()>>(
      kNameKey, s.name,
      {{"cosine", [&] { return half_cosine(p); }},
       {"linear", [&] { return 1 - p; }},
       {"polynomial", [&] { return std::pow(1 - p, s.power); }},
       {"cosine_restarts", [&] { return half_cosine(progress_in_period(s, decaying)); }},
       {"warmup_stable_decay", [&] { return late_decay(s, step, total); }}})();
}

// Up from first_factor to 1 and down to last_factor; the last step has the last rate.
double one_cycle(const config::LrScheduler& s, int64_t step, int64_t total) {
  const int64_t steps = s.decay_steps > 0 ? s.decay_steps : total;
  const double up = s.warmup_share * static_cast<double>(steps) - 1,
               last = static_cast<double>(steps - 1), at = static_cast<double>(step);
  if (at <= up) return 1 + (s.first_factor - 1) * half_cosine(up > 0 ? at / up : 1);
  const double down = last > up ? std::min(1.0, (at - up) / (last - up)) : 1;
  return s.last_factor + (1 - s.last_factor) * half_cosine(down);
}

bool decays_by_epochs(const std::string& name) {
  return name == "step" || name == "multi_step" || name == "exponential";
}

}  // namespace

double base_rate(const config::Config& config) {
  const config::LrScheduler& scheduler = config.lr_scheduler;
  const double factor = static_cast<double>(config.training.global_batch_size) /
                        static_cast<double>(scheduler.reference_batch_size);
  return config.optimizer.lr *
         row_of<double>("lr_scheduler.scale_with_batch", scheduler.scale_with_batch,
                        {{"none", 1}, {"linear", factor}, {"sqrt", std::sqrt(factor)}});
}

int64_t total_steps(const config::Config& config, int64_t steps_per_epoch) {
  if (config.training.steps > 0) return config.training.steps;
  return std::max<int64_t>(config.training.epochs, 1) * steps_per_epoch;
}

double learning_rate(const config::Config& config, int64_t step, int64_t steps_per_epoch) {
  const config::LrScheduler& scheduler = config.lr_scheduler;
  const double start = base_rate(config), end = std::min(scheduler.min_lr, start);
  const int64_t total = total_steps(config, steps_per_epoch);
  if (scheduler.name == "one_cycle")
    return std::max(end, start * one_cycle(scheduler, step, total));
  double lr = start;
  if (decays_by_epochs(scheduler.name)) {
    lr = std::max(end, start * std::pow(scheduler.gamma, decays(scheduler, step, steps_per_epoch)));
  } else if (scheduler.name != "constant" && scheduler.name != "plateau") {
    lr = end + (start - end) * height(scheduler, step, total);
  }
  if (step < scheduler.warmup_steps)
    lr *= static_cast<double>(step + 1) / static_cast<double>(scheduler.warmup_steps);
  return lr;
}

}  // namespace runtime::train
