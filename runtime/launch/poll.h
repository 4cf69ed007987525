// Waiting for an event of which no notification exists.
#ifndef RUNTIME_LAUNCH_POLL_H_
#define RUNTIME_LAUNCH_POLL_H_

#include <algorithm>
#include <chrono>
#include <thread>

namespace runtime::launch {

// Calls `done` until it returns true, at least once. Returns false if `timeout` has passed. The
// pauses between the calls grow from 1 to 20 ms: a short wait ends soon, and a long one costs
// little.
template <class Done>
bool poll_until(std::chrono::nanoseconds timeout, const Done& done) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(20);
  // A timeout of centuries would overflow the clock.
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
