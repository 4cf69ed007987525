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

// Calls `ask` with the time that it may wait, at most `longest` each time, until it returns a value
// or `at_most` has passed. Returns what the last call has returned, a std::optional.
template <class Ask>
auto wait_in_turns(std::chrono::nanoseconds at_most, std::chrono::milliseconds longest,
                   const Ask& ask) {
  using Clock = std::chrono::steady_clock;
  const auto end =
      Clock::now() + std::min(at_most, std::chrono::nanoseconds(std::chrono::years(10)));
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    auto value = ask(std::clamp(left, std::chrono::milliseconds(0), longest));
    if (value || left <= longest) return value;
  }
}

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_POLL_H_
