// One batch size that was tried.
#ifndef TOOLS_TUNE_BATCH_TRIAL_H_
#define TOOLS_TUNE_BATCH_TRIAL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tools/trials/pool.h"

namespace tools::tune {

// What `runtime bench --json` has measured.
struct BatchSpeed {
  double samples_per_second = 0, step_ms = 0;
  uint64_t memory_bytes = 0;                    // the most that the processes of all ranks had
  std::optional<int> utilisation;               // of the device, percent; where it is told
  std::optional<uint64_t> device_memory_bytes;  // in use, by all its users; where it is told
};

struct BatchTrial {
  int64_t size = 0;
  std::optional<BatchSpeed> speed;  // empty: the size does not fit
  std::string reason;               // why not, in a few words
};

// Returns what the end of `runtime bench --json` says about a batch size. Want of memory, a kill by
// the system, a timeout and a size that the program refuses make a trial that does not fit. Throws
// runtime::Error, with the code and the message of the program, for every other failure: that of a
// device that is not there must not look like want of memory.
BatchTrial judge(int64_t size, const trials::Ended& ended);

}  // namespace tools::tune

#endif  // TOOLS_TUNE_BATCH_TRIAL_H_
