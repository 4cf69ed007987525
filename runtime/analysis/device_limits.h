// The limits of a device, measured with operations that reach them.
#ifndef RUNTIME_ANALYSIS_DEVICE_LIMITS_H_
#define RUNTIME_ANALYSIS_DEVICE_LIMITS_H_

#include <memory>
#include <optional>

#include "runtime/analysis/least_time.h"
#include "runtime/config/config.h"

namespace runtime::analysis {

// The limits for the roofline of a profile: those that the configuration gives, and for the others
// the rates of a large addition (bandwidth) and of a large product of matrices of `dtype`
// (arithmetic), which takes up to about a second. nullopt if the device cannot compute these, or
// has no memory left for them. Ranks that share a device or processor call it at the same time, and
// each gets its share.
std::optional<DeviceLimits> device_limits(const config::Profiling& profiling,
                                          const std::shared_ptr<plugins::host::Device>& device,
                                          rt_dtype dtype);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_DEVICE_LIMITS_H_
