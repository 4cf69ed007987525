// Which trials are to run next: all of them, or those that successive halving lets go on.
#ifndef TOOLS_SWEEP_RUNGS_H_
#define TOOLS_SWEEP_RUNGS_H_

#include <cstdint>
#include <vector>

#include "tools/sweep/records.h"
#include "tools/sweep/sweep_file.h"

namespace tools::sweep {

// Returns whether `a` is the better result. Failed trials are worse than all others; of equal ones
// the first trial is better.
bool is_better(const Record& a, const Record& b, bool maximize);

// Returns the numbers of the trials that go on after a rung, in rising order: the best
// 1 / factor of all `trials`-many trials of the rung, at least one, none that has failed. Every
// trial of the rung must have a record. Equivalent to: one bracket of successive halving (Jamieson
// and Talwalkar, 2016).
std::vector<int64_t> promoted(const Halving& halving, const Records& records,
                              const std::vector<int64_t>& trials, int64_t rung, bool maximize);

// Returns the last record of each trial, the best first: those of later rungs before those of
// earlier ones.
std::vector<Record> ranking(const Records& records, bool maximize);

}  // namespace tools::sweep

#endif  // TOOLS_SWEEP_RUNGS_H_
