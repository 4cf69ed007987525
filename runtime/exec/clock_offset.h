// How far the clock of a rank is ahead of that of rank 0.
#ifndef RUNTIME_EXEC_CLOCK_OFFSET_H_
#define RUNTIME_EXEC_CLOCK_OFFSET_H_

#include <cstdint>

#include "runtime/exec/collectives.h"
#include "runtime/exec/span_recorder.h"

namespace runtime::exec {

// A time of this rank's steady clock minus `offset_ns` is the time of rank 0's, with an error of at
// most `error_ns` when it was measured.
struct ClockOffset {
  int64_t offset_ns = 0, error_ns = 0;
};

// Called by all ranks at the same time; nullptr: one rank. The ranks exchange their times a number
// of times: what a rank receives was sent earlier, which bounds the offset from both sides, and the
// tightest bounds count. If no offset lies within them, the clocks are taken to be one. Equivalent
// to: Cristian's algorithm ("Probabilistic clock synchronization", 1989), over an all-gather. `now`
// returns nanoseconds of the clock of this rank.
ClockOffset measure_clock_offset(Collectives* collectives, int64_t (*now)() = SpanRecorder::now);

}  // namespace runtime::exec

#endif  // RUNTIME_EXEC_CLOCK_OFFSET_H_
