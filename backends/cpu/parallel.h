// Loops over OpenMP threads.
#ifndef BACKENDS_CPU_PARALLEL_H_
#define BACKENDS_CPU_PARALLEL_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace backends::cpu {

// Cuts 0..count into ranges for `threads` threads and runs body(part, begin, end) for each, `part`
// being the number of the thread. Every range but the last is a multiple of `multiple` long. If
// `count` is below `grain`, the calling thread does everything as part 0, because a parallel region
// costs 2 to 5 microseconds. A region always has exactly `threads` threads: libgomp ends the
// surplus threads of a pool when a smaller region follows, and starts them again later.
template <typename Body>
void parallel_parts(int threads, int64_t count, int64_t grain, int64_t multiple, Body&& body) {
  if (threads <= 1 || count < grain) {
    if (count > 0) body(0, int64_t{0}, count);
    return;
  }
  const int64_t units = (count + multiple - 1) / multiple;
#pragma omp parallel num_threads(threads)
  {
    const int64_t part = omp_get_thread_num();
    const int64_t parts = omp_get_num_threads();
    const int64_t begin = std::min(count, units * part / parts * multiple);
    const int64_t end = std::min(count, units * (part + 1) / parts * multiple);
    if (begin < end) body(static_cast<int>(part), begin, end);
  }
}

// Like parallel_parts, for bodies that do not need the number of the thread: body(begin, end).
template <typename Body>
void parallel_for(int threads, int64_t count, int64_t grain, Body&& body) {
  parallel_parts(threads, count, grain, 1, [&](int, int64_t b, int64_t e) { body(b, e); });
}

// A flat float array with fewer elements is processed faster by one thread.
inline constexpr int64_t kElementGrain = 16384;

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_PARALLEL_H_
