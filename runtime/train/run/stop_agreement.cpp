// Exchanges signals and steps, so that all ranks stop after the same step.
#include "runtime/train/run/stop_agreement.h"

#include <algorithm>
#include <vector>

#include "runtime/train/rank/rank_setup.h"

namespace runtime::train {

StopAgreement::Answer StopAgreement::ask(const Answer& own, int64_t step, bool now) {
  if (setup_.strategy.mesh.size() == 1) return own;
  if (own.signal != 0) pending_ = own.signal;
  if (step < next_ && !now) return {0, false, after_checkpoint_, std::nullopt};
  const std::chrono::duration<double> elapsed = Clock::now() - mark_;
  const double per_step = elapsed.count() / static_cast<double>(std::max<int64_t>(1, step - last_));
  const std::vector<double> all =
      setup_.maximum({static_cast<double>(pending_), per_step, own.save ? 1.0 : 0.0,
                      own.after_checkpoint ? 1.0 : 0.0, *own.busy ? 1.0 : 0.0});
  after_checkpoint_ = all[3] != 0;
  last_ = step;
  next_ = step + std::clamp<int64_t>(static_cast<int64_t>(0.25 / all[1]), 1, 10000);
  mark_ = Clock::now();
  return {static_cast<int>(all[0]), all[2] != 0, after_checkpoint_, all[4] != 0};
}

}  // namespace runtime::train
