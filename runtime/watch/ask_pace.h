// How long and how often a rank looks for the notes of the others once its job cannot go on. All
// ranks do so at the same moment, on a machine that may have far fewer cores than ranks, so both
// grow with the number of ranks.
#ifndef RUNTIME_WATCH_ASK_PACE_H_
#define RUNTIME_WATCH_ASK_PACE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace runtime::watch {

// The time to wait for notes without a new one. The watchdog of a living rank hears an alarm at
// once, and then has a note to post.
inline constexpr std::chrono::milliseconds answer_time(int ranks) {
  return std::chrono::milliseconds(300 + 10 * ranks);
}
// The time to wait in all: 0.6 s for a few ranks, 2.5 s for 64.
inline constexpr std::chrono::milliseconds longest_wait(int ranks) {
  return std::chrono::milliseconds(600 + 30 * ranks);
}

// How long to wait. Each new note extends the time.
class AskPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  AskPace(int ranks, Time now)
      : answer_(answer_time(ranks)), last_(now + longest_wait(ranks)), until_(now + answer_) {}
  Time ends() const { return std::min(until_, last_); }
  // `notes` are known at `now`.
  void heard(std::size_t notes, Time now) {
    if (notes > notes_) until_ = now + answer_;
    notes_ = notes;
  }

 private:
  const std::chrono::milliseconds answer_;
  const Time last_;
  Time until_;
  std::size_t notes_ = 0;
};

// The times from one look to the next: first 10 ms, then each twice as long, up to 2 ms for each
// rank.
class AskIntervals {
 public:
  explicit AskIntervals(int ranks) : longest_(std::max(10, 2 * ranks)) {}
  std::chrono::milliseconds next() {
    const std::chrono::milliseconds now = interval_;
    interval_ = std::min(2 * interval_, longest_);
    return now;
  }

 private:
  const std::chrono::milliseconds longest_;
  std::chrono::milliseconds interval_{10};
};

}  // namespace runtime::watch

#endif  // RUNTIME_WATCH_ASK_PACE_H_
