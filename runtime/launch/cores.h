// Which cores a rank computes on, so that the ranks of one machine do not compete for them.
#ifndef RUNTIME_LAUNCH_CORES_H_
#define RUNTIME_LAUNCH_CORES_H_

#include <vector>

#include "runtime/launch/environment.h"

namespace runtime::launch {

// Numbers of logical processors, one list for each physical core, so that the hardware threads of a
// core stay together.
using Cores = std::vector<std::vector<int>>;

// The cores of one rank.
struct CoreShare {
  int threads = 1;              // the same for every rank, even if cores do not divide evenly
  std::vector<int> processors;  // logical processors to run on; empty: the system chooses
};

// Returns the processors that the calling thread may run on, by physical core.
Cores allowed_cores();

// Divides `cores` into contiguous ranges of equal size and returns that of `local_rank`. Cores that
// are left over widen some ranges without adding a thread. If there are more ranks than physical
// cores, all ranks may run on all cores, with one thread each.
CoreShare share_of(const Cores& cores, int local_rank, int local_size);

// Returns the cores of a rank that an outer launcher has bound to `cores` out of
// `launcher_processors` (mpirun --bind-to socket, srun --cpu-bind); the binding stays. If there are
// fewer such sets of cores than ranks, the ranks are assumed to be spread evenly over them, as
// launchers do, and the system places the threads in each set.
CoreShare share_of_bound(const Cores& cores, int launcher_processors, int local_size);

// Returns the threads of each of `ranks` ranks that share a CPU quota of `quota` processors (0:
// there is none) and have `threads` processors each: at least 1.
int within_quota(int threads, int ranks, int quota);

// Returns the threads of each of `ranks` ranks that divide the processors which this process may
// use, and the CPU quota of its control groups.
int threads_of(int ranks);

// Returns the cores of this process, which is a rank.
CoreShare share_of(const RankEnvironment& rank);

// Pins the calling thread; threads that it makes later inherit this. It is no error if the system
// refuses, because pinning affects only speed.
void apply(const CoreShare& share);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_CORES_H_
