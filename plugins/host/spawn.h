// Starts a program in a process of its own.
#ifndef PLUGINS_HOST_SPAWN_H_
#define PLUGINS_HOST_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "plugins/host/descriptor.h"

namespace plugins::host {

// A pipe whose ends a program that is started does not inherit.
struct Pipe {
  Descriptor read, write;
};
// Makes a pipe whose reading end does not block. Without ends, and with errno, if the system
// refuses.
Pipe make_pipe();

// What spawn() starts. The process has a process group of its own, /dev/null as input, and no
// descriptors of this process that are closed on exec.
struct Spawn {
  std::string program;                 // a path, or a name that is searched for in PATH
  std::vector<std::string> arguments;  // the first one is the program's name
  // "NAME=value", all variables of the process; empty: those of this process.
  std::vector<std::string> environment;
  // Descriptors of this process, with their numbers in the new one; at most seven.
  std::vector<std::pair<int, int>> descriptors = {};
  std::vector<int> blocked_signals = {};
  // The signal that the kernel sends when the calling *thread* ends; 0: none.
  int end_signal = 0;
  // Nothing else is inherited: every other descriptor is closed, no signal is ignored.
  bool isolated = false;
};

// The result: the number of the process, or the system's error. If `id` is above 0 beside an error,
// there was a process in which the program could not be executed.
struct Spawned {
  pid_t id = -1;
  int error = 0;
};

Spawned spawn(const Spawn& what);

}  // namespace plugins::host

#endif  // PLUGINS_HOST_SPAWN_H_
