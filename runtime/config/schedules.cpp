// The schedules of the learning rate: what the configuration needs to know of each. What computes
// their rates is in runtime/train/schedule.cpp.
#include "runtime/config/choices.h"

namespace runtime::config {

namespace {

using S = LrScheduler;

constexpr Range kShare = {.minimum = 0, .maximum = 1},
                kFactor = {.minimum = 0, .maximum = 1, .open_minimum = true};

// A key of one schedule or of a few, which files may keep when they name another schedule.
template <class Member>
KeyOf<S> own(const std::string& name, Member S::*member, const std::string& documentation,
             const Range& range) {
  return key(name, member, documentation).in(range).tolerated();
}

KeyOf<S> decay_steps(const std::string& documentation) {
  return key("decay_steps", &S::decay_steps, documentation).in(at_least(0, kMaxCount));
}

KeyOf<S> gamma() { return own("gamma", &S::gamma, "factor of a decay", kFactor); }

std::vector<KeyOf<S>> keys_of_one_cycle() {
  return {
      decay_steps("length of the cycle"),
      own("warmup_share", &S::warmup_share,
          "share of the steps in which the rate rises to lr; then it falls, both as a half "
          "cosine",
          kShare),
      own("first_factor", &S::first_factor,
          "the first rate divided by lr (1 / div_factor in PyTorch)", kFactor),
      own("last_factor", &S::last_factor,
          "the last rate divided by lr (1 / (div_factor * final_div_factor) in PyTorch)", kShare)};
}

std::vector<KeyOf<S>> keys_of_plateau() {
  return {gamma(),
          own("patience", &S::patience,
              "the rate is multiplied by gamma after more than so many validations without "
              "improvement of validation.monitor",
              at_least(0, kMaxCount)),
          own("threshold", &S::threshold, "relative change that is an improvement", kShare),
          own("cooldown", &S::cooldown, "validations after a decay that are not counted",
              at_least(0, kMaxCount))};
}

}  // namespace

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule>& all = *new std::vector<Schedule>{
      {.name = "constant"},
      {.name = "step",
       .keys = {own("step_size", &S::step_size,
                    "epochs between two decays, f = gamma^floor(e / step_size)",
                    at_least(1, kMaxCount)),
                gamma()}},
      {.name = "multi_step",
       .keys = {key("milestones", &S::milestones,
                    "epochs of the decays, f = gamma^(how many are <= e)")
                    .in(at_least(1, kMaxCount))
                    .needed("the epochs of its decays"),
                gamma()}},
      {.name = "exponential",
       .keys = {own("gamma", &S::gamma,
                    "f = gamma^e, or gamma^(s / decay_steps), which may grow: gamma above 1",
                    above_zero()),
                decay_steps("steps in which the rate is multiplied by gamma; 0: an epoch")}},
      {.name = "cosine",
       .keys = {decay_steps("rate min_lr + (lr - min_lr) * (1 + cos(pi * p)) / 2")},
       .ends = true},
      {.name = "cosine_restarts",
       .keys = {own("period_steps", &S::period_steps,
                    "steps of the first period, in which the rate falls as with cosine",
                    at_least(0, kMaxCount))
                    .needed("the steps of its first period"),
                own("period_factor", &S::period_factor,
                    "a period is so many times as long as the one before", at_least(1, 1000))}},
      {.name = "linear", .keys = {decay_steps("rate lr + (min_lr - lr) * p")}, .ends = true},
      {.name = "polynomial",
       .keys = {decay_steps("rate min_lr + (lr - min_lr) * (1 - p)^power"),
                own("power", &S::power, "the exponent", above_zero())},
       .ends = true},
      {.name = "one_cycle", .keys = keys_of_one_cycle(), .warms_up = false, .ends = true},
      {.name = "warmup_stable_decay",
       .keys = {decay_steps("the step with which the decay ends"),
                own("stable_steps", &S::stable_steps, "steps at lr between warm-up and decay",
                    at_least(0, kMaxCount)),
                own("decay", &S::decay, "the form of the decay", {}).one_of({"cosine", "linear"})},
       .ends = true},
      {.name = "plateau", .keys = keys_of_plateau(), .validates = true},
  };
  return all;
}

const Schedule& schedule_of(const LrScheduler& scheduler) {
  return find_row("lr_scheduler.name", scheduler.name, schedules());
}

}  // namespace runtime::config
