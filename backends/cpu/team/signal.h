// How two threads of a team wait for each other.
#ifndef BACKENDS_CPU_TEAM_SIGNAL_H_
#define BACKENDS_CPU_TEAM_SIGNAL_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace backends::cpu {

// A number that one thread sets and one other thread waits for. It has a cache line of its own.
class alignas(64) Signal {
 public:
  // Sets the number, and wakes the thread that waits if it sleeps. That one sees what this thread
  // wrote before.
  void send(uint32_t number) {
    if ((state_.exchange(2 * number, std::memory_order_acq_rel) & kAsleep) != 0)
      futex(FUTEX_WAKE_PRIVATE, 1);
  }

  // Both return when the number is, or is no longer, `number`, and return it. The thread polls for
  // as long as `polling` says, and then sleeps.
  uint32_t wait_for(uint32_t number, std::chrono::nanoseconds polling) {
    return wait([=](uint32_t now) { return now == number; }, polling);
  }
  uint32_t wait_past(uint32_t number, std::chrono::nanoseconds polling) {
    return wait([=](uint32_t now) { return now != number; }, polling);
  }

 private:
  static constexpr uint32_t kAsleep = 1;
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

  template <typename Condition>
  uint32_t wait(Condition met, std::chrono::nanoseconds polling) {
    uint32_t state = poll(met, polling);
    while (!met(state / 2)) {
      // Fails if the number has been set meanwhile; `state` is then the new one.
      if (state_.compare_exchange_strong(state, state | kAsleep, std::memory_order_acq_rel)) {
        futex(FUTEX_WAIT_PRIVATE, state | kAsleep);
        state = state_.load(std::memory_order_acquire);
      }
    }
    return state / 2;
  }

  template <typename Condition>
  uint32_t poll(Condition met, std::chrono::nanoseconds polling) const {
    using Clock = std::chrono::steady_clock;
    constexpr int kLooksPerTime = 32;  // about a microsecond
    Clock::time_point end{};
    while (true) {
      uint32_t state = 0;
      for (int i = 0; i < kLooksPerTime; ++i) {
        state = state_.load(std::memory_order_acquire);
        if (met(state / 2)) return state;
        pause();
      }
      const Clock::time_point now = Clock::now();
      if (end == Clock::time_point{}) end = now + polling;
      if (now >= end) return state;
    }
  }

  // std::atomic's wait() gives the processor away several times before it sleeps, each time for a
  // time slice where another process wants it.
  void futex(int operation, uint32_t value) {
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&state_), operation, value, nullptr, nullptr, 0);
  }

  // Tells the processor that this thread polls, so that the other hardware thread of its core gets
  // on.
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::atomic<uint32_t> state_{0};  // twice the number, and whether the thread that waits sleeps
};

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_TEAM_SIGNAL_H_
