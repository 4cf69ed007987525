// Watches over the processes of one attempt to run all ranks, from their start until none is left.
#ifndef RUNTIME_LAUNCH_SUPERVISOR_H_
#define RUNTIME_LAUNCH_SUPERVISOR_H_

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "runtime/launch/child.h"

namespace runtime::launch {

// After the first failure: time for the other ranks to notice it and say so themselves, then from
// SIGTERM to SIGKILL.
inline constexpr std::chrono::seconds kGrace{2}, kTermination{2};

// 128 + a signal that asks to stop.
bool is_stop_code(int exit_code);

// While it lives, the signals that a launcher handles are blocked in this thread and threads made
// later, and are read from fd(): those that stop (SIGINT, SIGTERM, SIGHUP), SIGTSTP and SIGCHLD.
// SIGPIPE is blocked: a reader of our output that is gone shows as an error of write().
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int fd() const { return fd_.get(); }
  int take() const;  // the next signal that has come, 0 if none

 private:
  sigset_t before_;
  FileDescriptor fd_;
};

struct Ending {
  int exit_code = 0;
  bool asked = false;    // the user has sent a signal
  int output_error = 0;  // errno: part of what was to go to the standard output is lost
};

// A rank has died, is stopped, or ended with an error of its own: the others should know at once.
// `gave_up`: it only said that another rank is gone (exit 4), and which one nobody knows here. Must
// not throw.
using OnLoss = std::function<void(int rank, const std::string& how, bool gave_up)>;

// How long the launcher waits for ranks, and whom it tells.
struct Supervision {
  // A rank that is still stopped (SIGSTOP) so long after another one has ended with 0 is lost.
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
  // A rank that has not ended so long after another one has ended with 0 is lost. It may be saving,
  // which takes its time.
  std::chrono::nanoseconds ending_limit = std::chrono::hours(1);
  OnLoss on_loss;
  // Whether a rank writes files that should not be lost: then the ranks are not ended after a
  // failure before it has finished, or before `saving` is over. Must not throw.
  std::function<bool()> is_saving;
  std::chrono::nanoseconds saving{0};
};

// Starts all, forwards their output, ends them as README.md says, and returns when no process below
// this one is left. The exit code: 0 when all have ended with 0; the code of the process that has
// failed first (4 if a signal killed it); 128 + signal after a stop that was asked for.
Ending supervise(const std::vector<ChildSpec>& specs, const Signals& signals,
                 const Supervision& supervision);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_SUPERVISOR_H_
