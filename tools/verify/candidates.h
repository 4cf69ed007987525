// The candidates in which a device offers to compute an operation: its candidates, in its own
// layouts and in the canonical ones.
#ifndef TOOLS_VERIFY_CANDIDATES_H_
#define TOOLS_VERIFY_CANDIDATES_H_

#include <memory>
#include <string>
#include <vector>

#include "tools/verify/isolated.h"

namespace runtime::verify {

// One candidate for the operation.
struct Candidate {
  IsolatedOperation isolated;  // with the layouts and the algorithm of the candidate
  std::string implementation;
  // How many post-operations the candidate fuses, from the first on. The others are run as
  // operations of their own, as the core does.
  uint32_t fused = 0;
};

// Returns all candidates. The list is empty if the device refuses the operation, and `reason` is
// then the reason it gives. `own_layouts` says that the layouts of `isolated` are those of the
// device's plugin; they are then tried beside those that the device proposes.
std::vector<Candidate> list_candidates(plugins::host::Device& device,
                                       const IsolatedOperation& isolated, bool own_layouts,
                                       std::string* reason);

// Returns whether the candidate has the layouts and the algorithm of `isolated`.
bool is_same_candidate(const Candidate& candidate, const IsolatedOperation& isolated);

// Returns the outputs in canonical layouts, after all post-operations.
HostTensors run_candidate(const std::shared_ptr<plugins::host::Device>& device,
                          const Candidate& candidate);

// Returns, for example, "conv2d nhwc (algorithm 3, nchw16c -> nchw16c)".
std::string describe(plugins::host::Device& device, const Candidate& candidate);

}  // namespace runtime::verify

#endif  // TOOLS_VERIFY_CANDIDATES_H_
