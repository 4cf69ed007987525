// This header turns [cluster] into the links and the data sheet that the planner computes with.
#ifndef RUNTIME_ANALYSIS_CLUSTER_H_
#define RUNTIME_ANALYSIS_CLUSTER_H_

#include <cstdint>
#include <optional>

#include "runtime/analysis/least_time.h"
#include "runtime/config/ranks.h"
#include "runtime/parallel/cluster.h"

namespace runtime::analysis {

// A device that is not here.
struct DeviceSheet {
  DeviceLimits limits;
  uint64_t memory = 0;  // bytes; 0: as the device has that makes the plan
};

// The device of the section; nothing where it describes none.
std::optional<DeviceSheet> sheet_of(const config::Cluster& section);

// The machines of the section. `of_plugin` is the link of whatever the section does not say, and
// says whether messages progress in the background, unless the section has devices of its own.
parallel::Cluster cluster_of(const config::Cluster& section, const parallel::Link& of_plugin);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_CLUSTER_H_
