// Which ranks look for the notes of the others once their job cannot go on, how long and how often.
// Most ranks wait for what one of these has found, so that N ranks exchange some N messages, and
// not N times N. All ranks do this at the same moment, on
// machines that may have fewer cores than ranks.
#ifndef RUNTIME_WATCH_ASK_PACE_H_
#define RUNTIME_WATCH_ASK_PACE_H_

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>

namespace runtime::watch {

// How often two has to be multiplied by itself to reach so many ranks: 1 for 2, 3 for 8, 12 for
// 4096.
inline constexpr int doublings(int ranks) {
  return std::bit_width(static_cast<unsigned>(std::max(ranks, 2)) - 1);
}
// Whether this rank asks all others if it hears no verdict: rank 0, and for each doubling one more.
// They are spread over the ranks, because the machine of some may be gone.
inline constexpr bool asks(int rank, int ranks) {
  const int count = doublings(ranks) + 1, stride = std::max(ranks / count, 1);
  return rank % stride == 0 && rank / stride < count;
}
// The time to wait for notes without a new one: 0.4 s for two ranks, 1.5 s for 4096. The watchdog
// of a living rank hears an alarm within 0.1 s, and then has a note to post.
inline constexpr std::chrono::milliseconds answer_time(int ranks) {
  return std::chrono::milliseconds(300 + 100 * doublings(ranks));
}
// The time to wait in all: 0.9 s for two ranks, 12.4 s for 4096, as each of them is asked and a
// store needs up to 2 ms for each.
inline constexpr std::chrono::milliseconds longest_wait(int ranks) {
  return std::chrono::milliseconds(600 + 300 * doublings(ranks) + 2 * ranks);
}
// The time for which a rank waits for the verdict of another before it asks all others itself.
inline constexpr std::chrono::milliseconds verdict_time(int rank, int ranks) {
  if (rank == 0) return std::chrono::milliseconds(0);
  if (asks(rank, ranks)) return std::chrono::milliseconds(100);
  return longest_wait(ranks) + answer_time(ranks);
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

// The times from one look to the next: first 10 ms, then each twice as long, up to 20 ms for each
// doubling.
class AskIntervals {
 public:
  explicit AskIntervals(int ranks) : longest_(20 * doublings(ranks)) {}
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
