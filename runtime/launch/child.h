// One process that the launcher starts.
#ifndef RUNTIME_LAUNCH_CHILD_H_
#define RUNTIME_LAUNCH_CHILD_H_

#include <sys/types.h>

#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/host/spawn.h"

namespace runtime::launch {

using FileDescriptor = plugins::host::Descriptor;

// What start() needs to know about a process.
// end_signal ends the process at once; it is SIGTERM for a launcher of other processes.
struct ChildSpec : plugins::host::Spawn {
  ChildSpec() { end_signal = SIGKILL; }

  std::string name;    // for messages: "rank 2"
  int rank = -1;       // -1: not a rank but a launcher of ranks
  std::string remedy;  // what the user can do if it cannot be started
  // Without a pipe the process inherits the output of this process.
  bool pipe_out = true, pipe_err = true;
  // The process is the launcher on another machine, or passes its input on to that, and reads this
  // first; orders follow (orders.h). Without a value the input of the process is empty.
  std::optional<std::string> input = {};
  std::string out_prefix, err_prefix;  // precede each line of its output
  std::string log = {};                // a file for these lines (LineLog); "": none
};

// A process that was started. It runs on when this object is destroyed.
struct Child {
  std::string name;
  int rank = -1;
  pid_t pid = -1;
  int end_signal = SIGKILL;
  FileDescriptor out, err;  // the reading ends, non-blocking; -1 without pipes
  FileDescriptor in;        // the writing end, of a process with an input

  // Whether it is a launcher on another machine.
  bool leads_elsewhere() const { return static_cast<bool>(in); }
  bool given_up = false;  // killed by the launcher, so its exit status says nothing
};

// Starts the program with these pipes. Throws ConfigurationError if there is no such program and
// CommunicationError if the system refuses processes or pipes.
Child start(const ChildSpec& spec);

// Writes to the input of the process, unless it has ended. SIGPIPE must be blocked.
void say(const Child& child, std::string_view text);
// Sends the signal, or says it to a process with an input.
void send(const Child& child, int signal);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_CHILD_H_
