// The functions of OpenMP that oneDNN calls, served by the team of the calling thread, so that
// oneDNN's loops and ours have the same threads. A thread without a team computes alone.
//
// oneDNN is linked to an OpenMP library of its own, but the dynamic linker looks for these names in
// this plugin first. If oneDNN calls other functions, too, all of its calls go on to that library.
#include <dlfcn.h>

#include <algorithm>
#include <limits>

#include "backends/cpu/onednn_threads.h"
#include "backends/cpu/team/team.h"

using backends::cpu::Team;
using backends::cpu::team_serves_onednn;

// The names are those of GNU's OpenMP.
// NOLINTBEGIN(readability-identifier-naming)
#define OPENMP_FUNCTION extern "C" __attribute__((visibility("default")))

namespace {

// How many threads the calling thread's next regions have, if omp_set_num_threads() has said it.
thread_local int most_threads = std::numeric_limits<int>::max();

// These functions in the library behind this plugin.
struct Others {
  template <typename Function>
  static void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
  }
  Others() {
    find(parallel, "GOMP_parallel");
    find(barrier, "GOMP_barrier");
    find(get_max_threads, "omp_get_max_threads");
    find(set_num_threads, "omp_set_num_threads");
    find(get_num_threads, "omp_get_num_threads");
    find(get_thread_num, "omp_get_thread_num");
    find(in_parallel, "omp_in_parallel");
  }

  void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
  void (*barrier)() = nullptr;
  int (*get_max_threads)() = nullptr;
  void (*set_num_threads)(int) = nullptr;
  int (*get_num_threads)() = nullptr;
  int (*get_thread_num)() = nullptr;
  int (*in_parallel)() = nullptr;
};

const Others& others() {
  static const Others all;
  return all;
}

}  // namespace

OPENMP_FUNCTION int omp_get_max_threads() {
  if (!team_serves_onednn()) return others().get_max_threads();
  const Team* const team = Team::current();
  return team == nullptr ? 1 : std::min(most_threads, team->threads());
}

OPENMP_FUNCTION void omp_set_num_threads(int threads) {
  if (!team_serves_onednn()) return others().set_num_threads(threads);
  most_threads = std::max(1, threads);
}

// Equivalent to: #pragma omp parallel num_threads(threads); 0 threads: as many as there are.
OPENMP_FUNCTION void GOMP_parallel(void (*task)(void*), void* data, unsigned threads,
                                   unsigned flags) {
  if (!team_serves_onednn()) return others().parallel(task, data, threads, flags);
  Team* const team = Team::current();
  if (team == nullptr) return task(data);
  team->run_together(threads == 0 ? omp_get_max_threads() : static_cast<int>(threads), task, data);
}

OPENMP_FUNCTION void GOMP_barrier() { team_serves_onednn() ? Team::meet() : others().barrier(); }

OPENMP_FUNCTION int omp_get_num_threads() {
  return team_serves_onednn() ? Team::parts() : others().get_num_threads();
}

OPENMP_FUNCTION int omp_get_thread_num() {
  return team_serves_onednn() ? Team::part() : others().get_thread_num();
}

OPENMP_FUNCTION int omp_in_parallel() {
  return team_serves_onednn() ? static_cast<int>(Team::in_region()) : others().in_parallel();
}
// NOLINTEND(readability-identifier-naming)
