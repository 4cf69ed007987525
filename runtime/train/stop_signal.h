// SIGINT and SIGTERM as something to ask for between steps.
#ifndef RUNTIME_TRAIN_STOP_SIGNAL_H_
#define RUNTIME_TRAIN_STOP_SIGNAL_H_

#include <csignal>

namespace runtime::train {

// While it lives, both signals are blocked in the constructing thread and every thread made after
// it; so make it first. After the first signal was taken, the next one ends the process at once, as
// usual.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal that has come, 0 if none. Does not wait.
  int pending();

 private:
  sigset_t blocked_, before_;
  int taken_ = 0;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_STOP_SIGNAL_H_
