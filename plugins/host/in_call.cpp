// Registers calls in progress, and finds the one that has lasted longest.
#include "plugins/host/in_call.h"

#include <algorithm>

namespace plugins::host {

std::string to_string(const Place& place) {
  std::string text = place.stream ? *place.stream : "a stream";
  if (place.last) text += ", launched last: " + *place.last;
  return text;
}

InCall::InCall(Calls& calls, const Place& place) : calls_(calls), place_(place) {
  const std::lock_guard lock(calls_.mutex_);
  before_ = calls_.newest_;
  if (before_ != nullptr) before_->behind_ = this;
  calls_.newest_ = this;
}

InCall::~InCall() {
  const std::lock_guard lock(calls_.mutex_);
  if (seen_)
    calls_.longest_ = std::max<std::chrono::nanoseconds>(calls_.longest_,
                                                         std::chrono::steady_clock::now() - *seen_);
  if (before_ != nullptr) before_->behind_ = behind_;
  (behind_ != nullptr ? behind_->before_ : calls_.newest_) = before_;
}

std::optional<Silence> Calls::longest() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  std::optional<Silence> found;
  for (InCall* call = newest_; call != nullptr; call = call->before_) {
    if (!call->seen_) call->seen_ = now;
    const std::chrono::nanoseconds time = now - *call->seen_;
    if (!found || time > found->time) found = Silence{time, longest_, to_string(call->place_)};
  }
  return found;
}

}  // namespace plugins::host
