// Joins, advances and compares vector clocks.
#include "plugins/validate/clock.h"

#include <algorithm>

namespace plugins::validate {

void Clock::join(const Clock& other) {
  times_.resize(std::max(times_.size(), other.times_.size()));
  for (std::size_t i = 0; i < other.times_.size(); ++i)
    times_[i] = std::max(times_[i], other.times_[i]);
}

Epoch Clock::advance(std::size_t stream) {
  times_.resize(std::max(times_.size(), stream + 1));
  return {stream, ++times_[stream]};
}

bool Clock::covers(const Epoch& epoch) const {
  return epoch.time == 0 || (epoch.stream < times_.size() && times_[epoch.stream] >= epoch.time);
}

}  // namespace plugins::validate
