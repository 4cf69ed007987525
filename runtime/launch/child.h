// One process that the launcher starts.
#ifndef RUNTIME_LAUNCH_CHILD_H_
#define RUNTIME_LAUNCH_CHILD_H_

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "plugins/host/descriptor.h"

namespace runtime::launch {

using FileDescriptor = plugins::host::Descriptor;

// What start() needs to know about a process.
struct ChildSpec {
  std::string name;                      // for messages: "rank 2"
  int rank = -1;                         // -1: not a rank but a launcher of ranks
  std::string program;                   // a path, or a name that is searched for in PATH
  std::vector<std::string> arguments;    // the first one is the program's name
  std::vector<std::string> environment;  // "NAME=value", all variables of the process
  std::string remedy;                    // what the user can do if it cannot be started
  // Without a pipe the process inherits the output of this process.
  bool pipe_out = true, pipe_err = true;
  std::string out_prefix, err_prefix;  // precede each line of its output
  // The signal that ends the process at once; the kernel also sends it when this process dies. It
  // is SIGTERM for a launcher of other processes.
  int end_signal = SIGKILL;
};

// A process that was started. It runs on when this object is destroyed.
struct Child {
  std::string name;
  int rank = -1;
  pid_t pid = -1;
  int end_signal = SIGKILL;
  FileDescriptor out, err;  // the reading ends, non-blocking; -1 without pipes
  bool given_up = false;    // killed by the launcher, so its exit status says nothing
};

// Starts the program in a process group of its own, with /dev/null as input and no signal blocked.
// The kernel sends it end_signal when the calling *thread* ends. Throws ConfigurationError if there
// is no such program and CommunicationError if the system refuses processes or pipes.
Child start(const ChildSpec& spec);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_CHILD_H_
