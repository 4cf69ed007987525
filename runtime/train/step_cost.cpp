// Sums exposed times of collectives by axis.
#include "runtime/train/step_cost.h"

namespace runtime::train {

parallel::ByAxis exposed_by_axis(const exec::CollectiveTimes& times) {
  parallel::ByAxis seconds{};
  for (size_t c = 0; c < times.exposed_ns.size(); ++c)
    seconds[parallel::axis_of(static_cast<int>(c))] += times.exposed_ns[c] * 1e-9;
  return seconds;
}

}  // namespace runtime::train
