// Starts one job on several machines.
#ifndef TOOLS_LAUNCH_LAUNCH_H_
#define TOOLS_LAUNCH_LAUNCH_H_

#include <string>
#include <vector>

#include "runtime/launch/child.h"
#include "runtime/launch/nonce.h"
#include "tools/launch/hosts.h"
#include "tools/launch/left_out.h"

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
  std::vector<Host> spares = {};       // take the places of hosts that are lost
  int min_hosts = 0;                   // with which the job goes on without spares; 0: all
  std::vector<LeftOut> left_out = {};  // because of min_hosts
  double rejoin_minutes = 10;          // between two questions to one of these; 0: none is asked
  int save_timeout_s = 1800;           // the default of comm.save_timeout_s
  // The same in all attempts to run the job.
  std::string launch_id = runtime::launch::make_nonce(), secret = runtime::launch::make_nonce();
};

inline constexpr const char* kPort = "29500";

// Returns the agents' processes, one for each host. Ranks follow the order of the hosts. Without
// RUNTIME_SECRET and RUNTIME_SECRET_FILE the ranks get the secret of the arguments. Throws
// ConfigurationError for arguments that the hosts could not take.
std::vector<runtime::launch::ChildSpec> agents_of(const Arguments& arguments);

// Puts the first spare in the place of the host of a rank, or leaves the host out if min_hosts
// allows it, and says so on the standard error output. Returns false, and says why, if neither is
// possible: the first host stays, because it has the store and what rank 0 has saved.
bool leave_out(Arguments& arguments, int rank);

// Runs the job and returns its exit code. Equivalent to: torchrun on each of the machines with
// --nnodes=MIN:MAX, or mpirun --host.
int run_on_hosts(Arguments arguments);

}  // namespace tools::launch

#endif  // TOOLS_LAUNCH_LAUNCH_H_
