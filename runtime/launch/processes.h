// Ranks as processes on this machine: they are started, supervised, ended and restarted.
#ifndef RUNTIME_LAUNCH_PROCESSES_H_
#define RUNTIME_LAUNCH_PROCESSES_H_

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/launch/child.h"

namespace runtime::launch {

// How a job goes on without a rank that is lost for good. Slots are explained in slots.h.
struct Elastic {
  // The ranks with which the job may go on; 0: with all of them only, and the rest is not used.
  int min_ranks = 0;
  int replica = 1;  // ranks that hold one replica of the model together
  // Returns the arguments that a rank gets besides LaunchOptions::arguments while slots are left
  // out; `slots` has the slot of each rank.
  std::function<std::vector<std::string>(const std::vector<int>& slots)> arguments;
  // A slot that was left out is looked at this often; 0: never.
  std::chrono::nanoseconds rejoin{0};
  // Returns whether the device of a slot can be used again. Must not throw.
  std::function<bool(int slot)> is_back;
};

// What to start, and how long to wait for it.
struct LaunchOptions {
  int ranks = 1;
  std::vector<std::string> arguments;  // of the program, for each rank, without the program's name
  // How often all ranks are started again after a rank was lost (exit code 4, or killed by a signal
  // that the user did not send), each time with a new rendezvous.
  int max_restarts = 0;
  Elastic elastic;        // for launch_processes() only
  std::string launch_id;  // the value of kLaunchVariable for the ranks
  // A rank is lost if it is still stopped (SIGSTOP) this long after another rank has ended with 0.
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
  // A rank is lost if it has not ended this long after another rank has ended with 0. It may be
  // saving, which takes time.
  std::chrono::nanoseconds ending_limit = std::chrono::hours(1);
  // How long rank 0 may go on saving after another rank has failed.
  std::chrono::nanoseconds saving = std::chrono::minutes(10);
  std::string mpiexec = "mpiexec";  // for launch_mpi() only
  // For launch_processes(): the folder of rank<number>.log with what each rank prints; "": none.
  std::string log_folder = {};
  // For launch_processes() where other launchers start the other ranks of the job.
  struct Share {
    std::string program = {};     // the path of this program
    int first_rank = 0;           // its ranks are this one and those that follow
    int world_size = 0;           // of the whole job
    std::string rendezvous = {};  // the value of kRendezvousVariable for the ranks
    bool keeps_store = false;     // this process keeps the store of that rendezvous (keep_store())
    int orders = -1;              // Supervision::orders
  };
  std::optional<Share> share = {};
};

// Runs this program once for each rank and returns the exit code of the whole job; README.md says
// what happens with output, signals and failures. Call it before other threads that
// take signals are made; the ranks
// are killed if the calling thread ends. Throws if the ranks cannot be started. Equivalent to:
// torchrun --standalone on one machine.
int launch_processes(const LaunchOptions& options);

// Does the same through `mpiexec -n <ranks>`, which starts the ranks itself and owns their output.
int launch_mpi(const LaunchOptions& options);

// The machines of a job.
struct Machines {
  // Returns a process with an input (ChildSpec::input) for each machine, with the first of its
  // ranks.
  std::function<std::vector<ChildSpec>()> launchers;
  // Leaves out the machine of a rank that is lost (-1: it is not known which), or puts another one
  // in its place; says so.
  // Returns false if the job cannot go on without it.
  std::function<bool(int rank)> leave_out;
  // Whether the machine of a rank (-1: none) has come into the job later. Where such a machine
  // fails, for example because it lacks the data, the job does not fail: the machine is lost, and
  // is left out without a restart.
  std::function<bool(int rank)> is_new;
  // Called at the interval `rejoin` (0: never) while the ranks run, until a machine that was left
  // out can be used again. The ranks then end after their next checkpoint, and the launchers of
  // that attempt are asked for anew. Must not throw or wait.
  std::function<bool()> is_back;
  std::chrono::nanoseconds rejoin{0};
};

// Runs launchers on other machines, or what starts them, as launch_processes() runs ranks. Of the
// options only those about time and restarts are used; after the last restart a machine is left
// out, and the count begins again. After a failure the launchers end their ranks themselves; those
// that have not within `saving` are ended.
int launch_launchers(const LaunchOptions& options, const Machines& machines);

// Makes this process, which is a rank of an MPI launcher, end when that launcher is gone. (Open
// MPI's ranks outlive an mpirun that was killed by SIGKILL.)
void end_with_parent();

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_PROCESSES_H_
