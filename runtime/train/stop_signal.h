// The signals that ask to stop (SIGINT, SIGTERM, SIGHUP) as something to ask for between steps.
#ifndef RUNTIME_TRAIN_STOP_SIGNAL_H_
#define RUNTIME_TRAIN_STOP_SIGNAL_H_

#include <atomic>
#include <csignal>
#include <thread>

namespace runtime::train {

// While it lives, the signals are blocked in the constructing thread and every thread made after
// it; so make it first. A thread of its own takes them: the first is what pending() returns, the
// second ends the process at once with exit code 128 + the first, whatever its other threads do.
// Signals that were ignored before (nohup, background jobs) stay ignored.
class StopSignal {
 public:
  // Throws DeviceError if the system has no descriptor for it.
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The first signal that has come, 0 if none. Does not wait. Any thread.
  int pending() const { return first_; }

 private:
  void take(int signals, int end);

  sigset_t before_;
  std::atomic<int> first_ = 0;
  int end_ = -1;  // an eventfd
  std::thread taker_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_STOP_SIGNAL_H_
