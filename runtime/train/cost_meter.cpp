// Adds up the times of steps and collectives behind a warm-up.
#include "runtime/train/cost_meter.h"

#include <algorithm>

#include "runtime/train/rank/step_programs.h"

namespace runtime::train {

parallel::ByAxis take_exposed_seconds(const StepPrograms& programs) {
  parallel::ByAxis seconds{};
  exec::Collectives* const collectives = programs.setup().collectives();
  if (collectives == nullptr) return seconds;
  const exec::CollectiveTimes times = collectives->take_times();
  for (size_t c = 0; c < times.exposed_ns.size(); ++c)
    seconds[parallel::axis_of(static_cast<int>(c))] += times.exposed_ns[c] * 1e-9;
  return seconds;
}

void CostMeter::begin(StepPrograms& programs, int64_t total) {
  programs_ = &programs;
  warm_up_ = std::min<int64_t>(kWarmUp, total / 2);
  take_exposed_seconds(programs);
}

// What was waited for while the clock stood still belongs to no step.
void CostMeter::begin_step() {
  if (since_) return;
  take_exposed_seconds(*programs_);
  since_ = Clock::now();
}

void CostMeter::end_step() {
  if (++steps_ != warm_up_) return;
  pause();
  seconds_ = data_ = {};
  exposed_ = {};
}

void CostMeter::take_exposed() {
  const parallel::ByAxis taken = take_exposed_seconds(*programs_);
  for (size_t axis = 0; axis < taken.size(); ++axis) exposed_[axis] += taken[axis];
}

StepTimes CostMeter::so_far() {
  if (steps_ <= warm_up_) return {};
  if (since_) take_exposed();
  const std::chrono::duration<double> running =
      since_ ? Clock::now() - *since_ : Clock::duration::zero();
  return {steps_ - warm_up_, (seconds_ + running).count(), exposed_[0] + exposed_[1] + exposed_[2],
          data_.count()};
}

void CostMeter::pause() {
  if (!since_) return;
  programs_->stream().synchronize();
  seconds_ += Clock::now() - *since_;
  take_exposed();
  since_.reset();
}

StepCost CostMeter::end() {
  pause();
  parallel::ByAxis exposed = exposed_;
  if (steps_ <= warm_up_) return {};
  const auto measured = static_cast<double>(steps_ - warm_up_);
  for (double& seconds : exposed) seconds /= measured;
  return {steps_ - warm_up_, seconds_.count() / measured, exposed};
}

}  // namespace runtime::train
