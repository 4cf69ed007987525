// Waiting for what nobody announces.
#ifndef RUNTIME_LAUNCH_POLL_H_
#define RUNTIME_LAUNCH_POLL_H_

#include <algorithm>
#include <chrono>
#include <thread>

namespace runtime::launch {

// Calls `done` until it returns true, at least once; false when `timeout` has passed. The pauses
// between grow from 1 to 20 ms: soon there when the others are, and cheap when they are late.
template <class Done>
bool poll_until(std::chrono::nanoseconds timeout, const Done& done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(20);
  // A timeout of centuries would pass the end of the clock.
  const auto deadline =
      Clock::now() + std::min(timeout, std::chrono::nanoseconds(std::chrono::years(10)));
  std::chrono::nanoseconds pause = std::chrono::milliseconds(1);
  while (!done()) {
    const std::chrono::nanoseconds left = deadline - Clock::now();
    if (left <= left.zero()) return false;
    std::this_thread::sleep_for(std::min(pause, left));
    pause = std::min(2 * pause, kLongest);
  }
  return true;
}

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_POLL_H_
