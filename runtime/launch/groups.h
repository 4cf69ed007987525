// Tells the watchdog which ranks share each communicator of a job.
#ifndef RUNTIME_LAUNCH_GROUPS_H_
#define RUNTIME_LAUNCH_GROUPS_H_

#include "runtime/parallel/mesh.h"
#include "runtime/watch/flight_recorder.h"

namespace runtime::launch {

// The communicators by their numbers in the flight recorder (exec::Collectives::number_of): those
// of parallel/mesh.h, then that of all ranks. In a job that only divides the batch, gradients share
// the communicator of all ranks, which is then not named.
watch::Groups groups_of(const parallel::Mesh& mesh);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_GROUPS_H_
