// Adds up the times of steps and collectives behind a warm-up.
#include "runtime/train/cost_meter.h"

#include <algorithm>

#include "runtime/train/step_programs.h"

namespace runtime::train {

exec::CollectiveTimes take_collective_times(const StepPrograms& programs) {
  exec::Collectives* const collectives = programs.setup().collectives();
  return collectives == nullptr ? exec::CollectiveTimes{} : collectives->take_times();
}

void CostMeter::begin(StepPrograms& programs, int64_t total) {
  programs_ = &programs;
  warm_up_ = std::min<int64_t>(kWarmUp, total / 2);
  take_collective_times(programs);
}

void CostMeter::end_step() {
  if (++steps_ != warm_up_) return;
  pause();
  take_collective_times(*programs_);
  seconds_ = {};
}

void CostMeter::pause() {
  if (!since_) return;
  programs_->stream().synchronize();
  seconds_ += Clock::now() - *since_;
  since_.reset();
}

StepCost CostMeter::end() {
  pause();
  parallel::ByAxis exposed = exposed_by_axis(take_collective_times(*programs_));
  if (steps_ <= warm_up_) return {};
  const auto measured = static_cast<double>(steps_ - warm_up_);
  for (double& seconds : exposed) seconds /= measured;
  return {steps_ - warm_up_, seconds_.count() / measured, exposed};
}

}  // namespace runtime::train
