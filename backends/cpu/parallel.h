// Loops over the threads of the device's team.
#ifndef BACKENDS_CPU_PARALLEL_H_
#define BACKENDS_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "backends/cpu/team/team.h"

namespace backends::cpu {

// Runs body(part) for each of `parts` parts, in an order that it does not choose and, with a team,
// in several threads. What they have written is seen by what follows.
template <typename Body>
void run_parts(int parts, Body&& body) {
  Team* const team = Team::current();
  if (team == nullptr || parts <= 1) {
    for (int part = 0; part < parts; ++part) body(part);
    return;
  }
  auto call = [&body] { body(Team::part()); };
  team->run_parts(
      parts, [](void* data) { (*static_cast<decltype(call)*>(data))(); }, &call);
}

// Cuts 0..count into ranges for at most `threads` threads and runs body(part, begin, end) for each,
// `part` being the number of the range. Every range but the last is a multiple of `multiple` long.
// If `count` is below `grain`, the calling thread does everything as part 0, because a region costs
// 1 to 5 microseconds; else each thread gets at least half of it. So the ranges depend on nothing
// but these numbers.
template <typename Body>
void parallel_parts(int threads, int64_t count, int64_t grain, int64_t multiple, Body&& body) {
  if (threads <= 1 || count < grain) {
    if (count > 0) body(0, int64_t{0}, count);
    return;
  }
  const int64_t units = (count + multiple - 1) / multiple;
  const int64_t parts = std::min<int64_t>(threads, count / std::max<int64_t>(1, grain / 2));
  run_parts(static_cast<int>(parts), [&](int part) {
    const int64_t begin = std::min(count, units * part / parts * multiple);
    const int64_t end = std::min(count, units * (part + 1) / parts * multiple);
    if (begin < end) body(part, begin, end);
  });
}

// Like parallel_parts, for bodies that do not need the number of the range: body(begin, end).
template <typename Body>
void parallel_for(int threads, int64_t count, int64_t grain, Body&& body) {
  parallel_parts(threads, count, grain, 1, [&](int, int64_t b, int64_t e) { body(b, e); });
}

// Runs body(unit) for each of `units` units of work, which are large.
template <typename Body>
void parallel_units(int threads, int64_t units, Body&& body) {
  parallel_for(threads, units, 1, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) body(unit);
  });
}

// A flat float array with fewer elements is processed faster by one thread.
inline constexpr int64_t kElementGrain = 16384;

}  // namespace backends::cpu

#endif  // BACKENDS_CPU_PARALLEL_H_
