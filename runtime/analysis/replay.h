// Runs a case again, on any device.
#ifndef RUNTIME_ANALYSIS_REPLAY_H_
#define RUNTIME_ANALYSIS_REPLAY_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/analysis/case.h"

namespace runtime::analysis {

// One candidate that ran.
struct Replayed {
  std::string candidate;  // with algorithm and layouts, for people
  bool recorded = false;  // the one that the case was found in
  Verdict verdict;
};

struct Replay {
  std::string note;  // empty, or why it is not the recorded candidate that ran
  std::vector<Replayed> candidates;

  bool right() const;
};

// `candidate`: the name of an implementation, "all", or empty: the recorded one, else all that the
// device offers. Throws ConfigurationError for a name that it does not have, DeviceError where it
// refuses the operation, DataError for a case that is no operation by the definition.
Replay replay(const std::shared_ptr<plugins::host::Device>& device, const Judge& judge,
              const Case& c, const std::string& candidate);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_REPLAY_H_
