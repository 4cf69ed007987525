// Ranks as processes on this machine: started, watched over, ended and started again.
#ifndef RUNTIME_LAUNCH_PROCESSES_H_
#define RUNTIME_LAUNCH_PROCESSES_H_

#include <chrono>
#include <string>
#include <vector>

namespace runtime::launch {

struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> arguments;  // of this program, for each rank; without the program's name
  // How often all ranks are started again after a rank was lost (exit 4, or killed by a signal that
  // the user did not send). Each time with a new rendezvous.
  int max_restarts = 0;
  std::string launch_id;  // what kLaunchVariable is for the ranks
  // A rank that is still stopped (SIGSTOP) so long after another one has ended well is lost.
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
  // A rank that has not ended so long after another one has ended well is lost. It may be saving,
  // which takes its time.
  std::chrono::nanoseconds ending_limit = std::chrono::hours(1);
  // Rank 0 is left to save for so long at most after another rank has failed.
  std::chrono::nanoseconds saving = std::chrono::minutes(10);
  std::string mpiexec = "mpiexec";  // launch_mpi() only
};

// Runs this program once for each rank and returns the exit code of the whole; README.md says what
// happens with output, signals and failures. Call it from a thread that lives as long, before other
// threads are made. Errors of starting are exceptions.
int launch_processes(const LaunchOptions& options);

// The same through `mpiexec -n <ranks>`, which starts the ranks itself and owns their output.
int launch_mpi(const LaunchOptions& options);

// For a rank that an MPI launcher has started: end when that launcher is gone. (Open MPI's ranks
// outlive an mpirun that was killed by SIGKILL.)
void end_with_parent();

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_PROCESSES_H_
