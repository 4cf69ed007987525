// Runs a case again, on any device.
#ifndef TOOLS_VERIFY_REPLAY_H_
#define TOOLS_VERIFY_REPLAY_H_

#include <memory>
#include <string>
#include <vector>

#include "tools/verify/case.h"

namespace runtime::verify {

// One candidate that has run.
struct Replayed {
  std::string candidate;  // with algorithm and layouts, for readers
  bool recorded = false;  // whether it is the candidate in which the case was found
  Verdict verdict;
};

// The result of replay().
struct Replay {
  std::string note;  // why other candidates than the recorded one ran; empty: the recorded one ran
  std::vector<Replayed> candidates;

  // Returns whether every candidate computed the right numbers.
  bool right() const;
};

// Runs the case. `candidate` is the name of an implementation or "all"; if it is empty, the
// recorded candidate runs, or all that the device offers if it does not offer that one. Throws
// ConfigurationError for a name that the device does not have, DeviceError if it refuses the
// operation, and DataError if the case is not an operation by the definition.
Replay replay(const std::shared_ptr<plugins::host::Device>& device, const Judge& judge,
              const Case& c, const std::string& candidate);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_REPLAY_H_
