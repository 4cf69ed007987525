// The functions of OpenMP that oneDNN calls, served by the team of the calling thread, so that
// oneDNN's loops and ours have the same threads. A thread without a team computes alone.
//
// oneDNN is linked to libgomp, but the dynamic linker looks for these names in this plugin first.
#include <algorithm>

#include "backends/cpu/team/team.h"

using backends::cpu::Team;

#define OPENMP_FUNCTION extern "C" __attribute__((visibility("default")))

// Equivalent to: #pragma omp parallel num_threads(threads); 0 threads: as many as there are.
OPENMP_FUNCTION void GOMP_parallel(void (*task)(void*), void* data, unsigned threads, unsigned) {
  Team* const team = Team::current();
  if (team == nullptr) return task(data);
  team->run_together(threads == 0 ? team->threads() : static_cast<int>(threads), task, data);
}

OPENMP_FUNCTION void GOMP_barrier() { Team::meet(); }

OPENMP_FUNCTION int omp_get_max_threads() {
  const Team* const team = Team::current();
  return team == nullptr ? 1 : team->threads();
}

OPENMP_FUNCTION int omp_get_num_threads() { return Team::parts(); }

OPENMP_FUNCTION int omp_get_thread_num() { return Team::part(); }

OPENMP_FUNCTION int omp_in_parallel() { return Team::in_region() ? 1 : 0; }
