// `runtime tune batch`.
#ifndef TOOLS_TUNE_BATCH_H_
#define TOOLS_TUNE_BATCH_H_

#include <cstdint>

#include "tools/trials/program.h"

namespace tools::tune {

struct BatchArguments {
  trials::ConfigArguments config;
  trials::OutputFiles output;
  int64_t start = 0;          // 0: 16 for each rank
  int64_t most = 0;           // 0: no limit but that of the configuration's schema
  int64_t steps = 10;         // that each trial measures
  double precision = 0.05;    // see BatchSearch
  double timeout_s = 300;     // of a trial
  uint64_t memory_limit = 0;  // bytes of address space of each process; 0: none
};

// Measures batch sizes in processes of their own, prints a table and a plot, and says what belongs
// into the configuration. Returns the exit code: 0, or 128 + a signal that ended it. Throws
// runtime::Error if not even the smallest size can be trained, or for a failure that has nothing to
// do with the size.
// Equivalent to: Lightning's Tuner.scale_batch_size(mode="binsearch"), which trains in its own
// process and returns the largest size only.
int tune_batch(const BatchArguments& arguments);

}  // namespace tools::tune

#endif  // TOOLS_TUNE_BATCH_H_
