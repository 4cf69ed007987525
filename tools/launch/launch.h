// Starts one job on several machines.
#ifndef TOOLS_LAUNCH_LAUNCH_H_
#define TOOLS_LAUNCH_LAUNCH_H_

#include <string>
#include <vector>

#include "runtime/launch/child.h"
#include "tools/launch/hosts.h"

namespace tools::launch {

struct Arguments {
  std::vector<Host> hosts;           // rank 0 is on the first one
  std::vector<std::string> command;  // of `runtime`
  // The words of a program that runs a command on a host: each {host} in them becomes the host, or
  // the host follows them.
  std::vector<std::string> agent;
  std::string program;                      // the path of `runtime` on the hosts
  std::string folder;                       // the working folder of the ranks
  std::string rendezvous = {};              // "": a store of rank 0 at the first host and kPort
  std::vector<std::string> forwarded = {};  // names of variables, beside those of this program
  std::string log_folder = {};              // of LaunchOptions, on each host
  int max_restarts = 0;
  int save_timeout_s = 1800;  // the default of comm.save_timeout_s
};

inline constexpr const char* kPort = "29500";

// Returns the agents' processes, one for each host. Ranks follow the order of the hosts. Without
// RUNTIME_SECRET and RUNTIME_SECRET_FILE the job gets a secret of its own. Throws
// ConfigurationError for arguments that the hosts could not take.
std::vector<runtime::launch::ChildSpec> agents_of(const Arguments& arguments);

// Runs the job and returns its exit code. Equivalent to: torchrun on each of the machines, or
// mpirun --host.
int run_on_hosts(const Arguments& arguments);

}  // namespace tools::launch

#endif  // TOOLS_LAUNCH_LAUNCH_H_
