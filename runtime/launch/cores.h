// Which cores a rank computes on, so that the ranks of one machine do not take them from each
// other.
#ifndef RUNTIME_LAUNCH_CORES_H_
#define RUNTIME_LAUNCH_CORES_H_

#include <vector>

#include "runtime/launch/environment.h"

namespace runtime::launch {

// Numbers of the logical processors, one list for each physical core: hardware threads of a core
// stay together.
using Cores = std::vector<std::vector<int>>;

struct CoreShare {
  int threads = 1;              // the same for every rank, also where cores do not divide evenly
  std::vector<int> processors;  // logical processors to run on; empty: as the system likes
};

// What the calling thread may run on, by physical core.
Cores allowed_cores();

// Contiguous parts of equal size; what is left over widens parts without adding a thread. More
// ranks than physical cores: they share all of them, with one thread each.
CoreShare share_of(const Cores& cores, int local_rank, int local_size);

// The share of a rank that an outer launcher has bound to `cores` out of `launcher_processors`
// (mpirun --bind-to socket, srun --cpu-bind): it stays there. Fewer such domains than ranks: ranks
// share theirs evenly, as launchers map them, and the system places their threads in it.
CoreShare share_of_bound(const Cores& cores, int launcher_processors, int local_size);

// The share of a process that is a rank.
CoreShare share_of(const RankEnvironment& rank);

// Pins the calling thread; threads that it makes later inherit that. A system that refuses changes
// nothing: a share is about speed only.
void apply(const CoreShare& share);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_CORES_H_
