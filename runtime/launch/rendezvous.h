// How the ranks of a run find each other in a store, whatever earlier runs have left there.
#ifndef RUNTIME_LAUNCH_RENDEZVOUS_H_
#define RUNTIME_LAUNCH_RENDEZVOUS_H_

#include <chrono>
#include <string>

#include "runtime/launch/store.h"

namespace runtime::launch {

// Returns when all ranks have come, with a prefix for keys that only this run has. `run_hint` is
// the same on all ranks and differs between jobs that use the store at the same time.
//
// Rank 0 publishes a nonce; the others register under the newest nonce with one of their own and
// wait for an answer that repeats it. A left-over of an earlier run never does.
//
// CommunicationError: ranks that have not come, two processes with one rank, another
// world size. Rank 0 tells the others, which fail at once with the same words. Who comes as a rank
// that has already been counted when all were there hears nothing, and fails at the deadline.
std::string join(Store& store, int rank, int world_size, std::chrono::nanoseconds timeout,
                 const std::string& run_hint = "");

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_RENDEZVOUS_H_
