// In how many ways a device offers to do an operation: its candidates, in its own layouts and in
// the canonical ones.
#ifndef RUNTIME_ANALYSIS_WAYS_H_
#define RUNTIME_ANALYSIS_WAYS_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/analysis/isolated.h"

namespace runtime::analysis {

struct Way {
  IsolatedOperation isolated;  // in the layouts and the algorithm of the candidate
  std::string implementation;
  // Post-operations that the device fuses, from the first; the others are run as operations of
  // their own, as the core does.
  uint32_t fused = 0;
};

// Empty if the device refuses the operation, for which it gives `reason`.
// `own_layouts`: the layouts of `isolated` are the device's, and asked for beside those that it
// proposes.
std::vector<Way> list_ways(plugins::host::Device& device, const IsolatedOperation& isolated,
                           bool own_layouts, std::string* reason);

// Whether the way has the layouts and the algorithm of `isolated`.
bool is_same_way(const Way& way, const IsolatedOperation& isolated);

// The outputs, canonical, after all post-operations.
HostTensors run_way(const std::shared_ptr<plugins::host::Device>& device, const Way& way);

// "conv2d nhwc (algorithm 3, nchw16c -> nchw16c)"
std::string describe(plugins::host::Device& device, const Way& way);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_WAYS_H_
