// Ranks as threads of this process, for comm.backend = "local".
#ifndef RUNTIME_LAUNCH_THREADS_H_
#define RUNTIME_LAUNCH_THREADS_H_

#include <functional>

namespace runtime::launch {

struct RankThreads {
  int ranks = 1;
  std::function<void(int rank)> body;
  // Makes the waits of all ranks fail. Called once, in the thread of the first rank that throws;
  // must not throw itself.
  std::function<void()> abort_all;
};

// Runs body(0) to body(ranks - 1) at the same time, each thread pinned to its share of the cores of
// the calling thread; waits for all. Then throws the exception that is the cause: the first, but
// one that says that another rank is gone (communication, timeout) gives way to a later one that
// says more, because others may notice that a rank is gone while its exception still unwinds its
// stack.
void run_rank_threads(const RankThreads& threads);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_THREADS_H_
