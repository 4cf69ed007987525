// How the ranks of a run find each other in a store, whatever earlier runs have left in it.
#ifndef RUNTIME_LAUNCH_RENDEZVOUS_H_
#define RUNTIME_LAUNCH_RENDEZVOUS_H_

#include <chrono>
#include <string>
#include <vector>

#include "runtime/launch/store.h"

namespace runtime::launch {

// Waits until all ranks of this run have called join(), and returns a prefix for keys that only
// this run uses. `run_hint` is the same on all ranks and differs between jobs that use the store at
// the same time.
//
// Rank 0 publishes a nonce. Each other rank registers under the newest nonce with a nonce of its
// own and waits for an answer that contains it, which no entry of an earlier run does.
//
// Throws CommunicationError if ranks have not come in time, if two processes have the same rank, or
// if ranks have different world sizes. Rank 0 passes the error on to the others, which fail at once
// with the same text. A process that comes with an already counted rank after all ranks have come
// gets no answer and fails at the deadline.
std::string join(Store& store, int rank, int world_size, std::chrono::nanoseconds timeout,
                 const std::string& run_hint = "");

// Tells every rank the host of each; every rank calls it once after join(). Rank 0 collects the
// names, so that each of the others reads one key. Throws CommunicationError.
std::vector<std::string> exchange_hosts(Store& store, const std::string& prefix, int rank,
                                        int world_size, std::chrono::nanoseconds timeout);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_RENDEZVOUS_H_
