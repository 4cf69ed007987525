// Turns the signals SIGINT, SIGTERM and SIGHUP into a request to stop that is polled between steps,
// SIGUSR1 into a request to stop after the next checkpoint, and SIGUSR2 into a question.
#ifndef RUNTIME_TRAIN_RUN_STOP_SIGNAL_H_
#define RUNTIME_TRAIN_RUN_STOP_SIGNAL_H_

#include <atomic>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "plugins/host/in_call.h"

namespace runtime::train {

// While it lives, these signals are blocked in the constructing thread and in every thread made
// after it; so make it first. A thread of its own receives them: pending() returns the first, and
// the second ends the process at once with exit code 128 + the first, whatever its other threads
// do. The first one, too, ends the process, with exit code 3, if a device does not answer for 10 s
// then, and for twice as long as it ever took before: the step would never end. What the user
// should know then goes to the standard error as a line. Signals that were ignored before (nohup,
// background jobs) stay ignored.
class StopSignal {
 public:
  // The lines after the first signal that stops, after the second one, and after SIGUSR2 begin with
  // the signal's name, which these texts follow. Nothing is said for "".
  struct Texts {
    std::string first, second, question;
  };

  // Throws DeviceError if the system has no file descriptor left.
  // `silence`: the longest call that waits for a device now; it may be empty.
  using AskSilence = std::function<std::optional<plugins::host::Silence>()>;
  explicit StopSignal(Texts texts = {}, AskSilence silence = {});
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The first signal received, or 0. Does not wait. Any thread.
  int pending() const { return first_; }
  // Whether SIGUSR1 has been received. Does not wait. Any thread.
  bool after_checkpoint() const { return after_checkpoint_; }
  // How often SIGUSR2 has been received, which asks for what a rank waits. Does not wait. Any
  // thread.
  int questions() const { return questions_; }
  // Says that everything is saved, so that the texts are wrong from now on: a launcher that sees
  // one rank end with 128 + the signal sends SIGTERM to those that are still ending. Any thread.
  void everything_is_saved() { saved_ = true; }

 private:
  void take(int signals, int end);
  void end_if_silent() const;

  const Texts texts_;
  const AskSilence silence_;
  sigset_t before_;
  std::atomic<int> first_ = 0, questions_ = 0;
  std::atomic<bool> after_checkpoint_ = false, saved_ = false;
  int end_ = -1;  // an eventfd
  std::thread taker_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_STOP_SIGNAL_H_
