// Ranks as threads of this process, for plugins with RT_RANKS_THREADS.
#ifndef RUNTIME_LAUNCH_THREADS_H_
#define RUNTIME_LAUNCH_THREADS_H_

#include <functional>

namespace runtime::launch {

// What run_rank_threads() runs.
struct RankThreads {
  int ranks = 1;
  std::function<void(int rank)> body;
  // Makes the waits of all ranks fail. It is called once, in the thread of the first rank that
  // throws, and must not throw itself.
  std::function<void()> abort_all;
};

// Runs body(0) to body(ranks - 1) at the same time, each in a thread that is pinned to some of the
// calling thread's cores, and waits for all of them. Then throws the exception that is the cause:
// the first one, unless it only says that another rank is gone (communication, timeout) and a later
// one says more. The order may differ because other ranks can notice that a rank is gone while its
// exception still unwinds its stack.
void run_rank_threads(const RankThreads& threads);

}  // namespace runtime::launch

#endif  // RUNTIME_LAUNCH_THREADS_H_
