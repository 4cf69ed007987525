// Counts which slots take part, in whole replicas of the model.
#include "runtime/launch/slots.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace runtime::launch {

Slots::Slots(int all, int least, int replica)
    : all_(all), least_(least == 0 ? all : std::max(least, replica)), replica_(replica) {
  take_back();
}

void Slots::fill(std::vector<int> present) {
  present_ = std::move(present);
  // A number of ranks that makes no whole replicas is refused by the ranks themselves.
  const auto count = static_cast<int>(present_.size());
  const int used = count == all_ ? count : count - count % replica_;
  used_.assign(present_.begin(), present_.begin() + used);
}

bool Slots::leave_out(int rank) {
  std::vector<int> rest = present_;
  const int slot = used_.at(static_cast<size_t>(rank));
  std::erase(rest, slot);
  const auto count = static_cast<int>(rest.size());
  if (count - count % replica_ < least_) return false;
  left_out_.push_back(slot);
  fill(std::move(rest));
  return true;
}

void Slots::take_back() {
  left_out_.clear();
  std::vector<int> all(static_cast<size_t>(all_));
  std::iota(all.begin(), all.end(), 0);
  fill(std::move(all));
}

}  // namespace runtime::launch
