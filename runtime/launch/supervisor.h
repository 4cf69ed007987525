// Supervises the processes of one attempt to run all ranks, from their start until none is left.
#ifndef RUNTIME_LAUNCH_SUPERVISOR_H_
#define RUNTIME_LAUNCH_SUPERVISOR_H_

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "runtime/launch/child.h"

namespace runtime::launch {

// After the first failure: the time in which other ranks may notice it and report it themselves,
// then the time from SIGTERM to SIGKILL.
inline constexpr std::chrono::seconds kGrace{2}, kTermination{2};

// Returns whether the code is 128 + a signal that asks a process to stop.
bool is_stop_code(int exit_code);

// The signal that asks ranks to end after their next checkpoint, and the exit code of a rank that
// has done so.
inline constexpr int kAfterCheckpoint = SIGUSR1, kEndedAfterCheckpoint = 128 + SIGUSR1;
// The ranks write for whom they wait.
inline constexpr int kQuestion = SIGUSR2;

// While this object exists, the signals that a launcher handles are blocked in this thread and in
// threads made later, and are read from fd(): SIGINT, SIGTERM and SIGHUP, which stop the job,
// SIGUSR1, which stops it after its next checkpoint, SIGUSR2, SIGTSTP and SIGCHLD. SIGPIPE is
// blocked too, so that write() reports an error if the reader of the output is gone.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int fd() const { return fd_.get(); }
  int take() const;  // returns the next signal that has arrived, 0 if there is none

 private:
  sigset_t before_;
  FileDescriptor fd_;
};

// How an attempt has ended.
struct Ending {
  int exit_code = 0;
  bool asked = false;         // the user has sent a signal
  bool told_to_stop = false;  // the signal was to end the ranks at once, not after a checkpoint
  // The ranks have ended after a checkpoint, because Supervision::should_regroup() was true.
  bool regroups = false;
  int lost = -1;  // the rank that failed first by itself, or that was stopped or hung; -1: unknown
  int output_error = 0;  // errno if a part of the standard output was lost; 0: none
};

// Called when a rank has died, is stopped or ended with an error of its own, so that the other
// ranks learn of it at once. `gave_up` is true if the rank only reported that another rank is gone
// (exit code 4), and the launcher does not know which. Must not throw.
using OnLoss = std::function<void(int rank, const std::string& how, bool gave_up)>;

// How long the launcher waits for ranks, and whom it informs.
struct Supervision {
  // A rank is lost if it is still stopped (SIGSTOP) this long after another rank has ended with 0.
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
  // A rank is lost if it has not ended this long after another rank has ended with 0. It may be
  // saving, which takes time.
  std::chrono::nanoseconds ending_limit = std::chrono::hours(1);
  OnLoss on_loss;
  // Returns whether a rank is writing files that should not be lost. After a failure, ranks are
  // then not ended before it has finished or `saving` has passed. Must not throw.
  std::function<bool()> is_saving;
  std::chrono::nanoseconds saving{0};
  // While all ranks run, should_regroup() is called at this interval until it returns true: then
  // the ranks get kAfterCheckpoint. Null: never. Must not throw.
  std::chrono::nanoseconds regroup_interval{0};
  std::function<bool()> should_regroup;
  // A descriptor with orders (orders.h) of a launcher on another machine, whose end is SIGHUP; -1:
  // there is none.
  int orders = -1;
};

// Starts all processes, forwards their output, ends them as README.md says, and returns when no
// process below this one is left. The exit code is 0 if all have ended with 0, otherwise the code
// of the process that failed first (4 if a signal killed it), or 128 + signal after a stop that was
// asked for.
Ending supervise(const std::vector<ChildSpec>& specs, const Signals& signals,
                 const Supervision& supervision);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_SUPERVISOR_H_
