// Errors of a communicator become one cause for all ranks, or are ignored when it is aborted.
#ifndef RUNTIME_EXEC_COMMUNICATOR_ERRORS_H_
#define RUNTIME_EXEC_COMMUNICATOR_ERRORS_H_

#include "plugins/host/communicator.h"
#include "runtime/watch/watchdog.h"

namespace runtime::exec {

// Returns what `call` returns, and turns a communicator's error in it into the cause that all ranks
// determine together.
template <class Call>
auto guarded(watch::Watchdog& watchdog, Call&& call) {
  try {
    return call();
  } catch (const plugins::host::Error& error) {
    watchdog.fail(error);
  }
}

// Aborts a communicator, which may have failed already.
inline void abort(plugins::host::Communicator& communicator) {
  try {
    communicator.abort();
  } catch (const plugins::host::Error&) {
    // The communicator has failed, which is what abort() is for.
  }
}

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_COMMUNICATOR_ERRORS_H_
