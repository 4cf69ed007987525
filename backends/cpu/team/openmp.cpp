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

// The function of that name in the library behind this plugin.
template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

OPENMP_FUNCTION int omp_get_max_threads() {
  if (!team_serves_onednn()) {
    static const auto other = next<int()>("omp_get_max_threads");
    return other();
  }
  const Team* const team = Team::current();
  return team == nullptr ? 1 : std::min(most_threads, team->threads());
}

OPENMP_FUNCTION void omp_set_num_threads(int threads) {
  if (!team_serves_onednn()) {
    static const auto other = next<void(int)>("omp_set_num_threads");
    return other(threads);
  }
  most_threads = std::max(1, threads);
}

// Equivalent to: #pragma omp parallel num_threads(threads); 0 threads: as many as there are.
OPENMP_FUNCTION void GOMP_parallel(void (*task)(void*), void* data, unsigned threads,
                                   unsigned flags) {
  if (!team_serves_onednn()) {
    static const auto other =
        next<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
    return other(task, data, threads, flags);
  }
  Team* const team = Team::current();
  if (team == nullptr) return task(data);
  team->run_together(threads == 0 ? omp_get_max_threads() : static_cast<int>(threads), task, data);
}

OPENMP_FUNCTION void GOMP_barrier() {
  if (!team_serves_onednn()) {
    static const auto other = next<void()>("GOMP_barrier");
    return other();
  }
  Team::meet();
}

OPENMP_FUNCTION int omp_get_num_threads() {
  if (!team_serves_onednn()) {
    static const auto other = next<int()>("omp_get_num_threads");
    return other();
  }
  return Team::parts();
}

OPENMP_FUNCTION int omp_get_thread_num() {
  if (!team_serves_onednn()) {
    static const auto other = next<int()>("omp_get_thread_num");
    return other();
  }
  return Team::part();
}

OPENMP_FUNCTION int omp_in_parallel() {
  if (!team_serves_onednn()) {
    static const auto other = next<int()>("omp_in_parallel");
    return other();
  }
  return Team::in_region() ? 1 : 0;
}
// NOLINTEND(readability-identifier-naming)
