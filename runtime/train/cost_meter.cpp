// Adds up the times of steps and collectives behind a warm-up.
#include "runtime/train/cost_meter.h"

#include <algorithm>

#include "runtime/train/step_programs.h"

namespace runtime::train {

void CostMeter::begin(const StepPrograms& programs, int64_t total) {
  programs_ = &programs;
  warm_up_ = std::min<int64_t>(kWarmUp, total / 2);
  programs.take_collective_times();
}

void CostMeter::add(Clock::time_point step_begin) {
  if (++steps_ == warm_up_) programs_->take_collective_times();
  if (steps_ > warm_up_) seconds_ += Clock::now() - step_begin;
}

StepCost CostMeter::end() {
  parallel::ByAxis exposed = exposed_by_axis(programs_->take_collective_times());
  if (steps_ <= warm_up_) return {};
  const auto measured = static_cast<double>(steps_ - warm_up_);
  for (double& seconds : exposed) seconds /= measured;
  return {steps_ - warm_up_, seconds_.count() / measured, exposed};
}

}  // namespace runtime::train
