// When the ranks of a run stop and save.
#ifndef RUNTIME_TRAIN_RUN_STOP_AGREEMENT_H_
#define RUNTIME_TRAIN_RUN_STOP_AGREEMENT_H_

#include <chrono>
#include <cstdint>
#include <optional>

namespace runtime::train {

struct RankSetup;

// Makes ranks that get a signal in different steps stop after the same step, and ranks whose clocks
// or disks differ save after the same step. The ranks ask each other every quarter of a second, so
// that it costs next to nothing. One thread; the setup must outlive the object.
class StopAgreement {
 public:
  // `step`: the steps that are done already.
  StopAgreement(const RankSetup& setup, int64_t step)
      : setup_(setup), last_(step), next_(step + 1) {}

  struct Answer {
    int signal = 0;
    bool save = false;              // by the clock of a rank
    bool after_checkpoint = false;  // the run ends after its next checkpoint
    // Whether a rank still writes a checkpoint; empty: the ranks have not asked each other.
    std::optional<bool> busy = false;
  };
  // Every rank calls it after each step with what it has seen itself. Returns what all ranks do.
  // `now`, the same on every rank: they ask each other after this step.
  Answer ask(const Answer& own, int64_t step, bool now);

 private:
  using Clock = std::chrono::steady_clock;

  const RankSetup& setup_;
  int pending_ = 0;
  bool after_checkpoint_ = false;  // as agreed
  int64_t last_, next_;
  Clock::time_point mark_ = Clock::now();
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_STOP_AGREEMENT_H_
