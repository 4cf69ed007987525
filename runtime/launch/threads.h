// Ranks as threads of this process, for comm.backend = "local".
#ifndef RUNTIME_LAUNCH_THREADS_H_
#define RUNTIME_LAUNCH_THREADS_H_

#include <functional>

namespace runtime::launch {

// Runs body(0) to body(ranks - 1) at the same time, each thread pinned to its share of the cores of
// the calling thread; waits for all. The first exception of any rank calls abort_all once, in that
// rank's thread; it makes the waits of the others fail, and must not throw. Then the exception that
// is the cause is thrown: the first, but one that says that another rank is gone (communication,
// timeout) gives way to a later one that says more, because others may notice that a rank is gone
// while its exception still unwinds its stack.
// SIGINT and SIGTERM are blocked in every rank's thread, as train::StopSignal needs it.
void run_rank_threads(int ranks, const std::function<void(int rank)>& body,
                      const std::function<void()>& abort_all);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_THREADS_H_
