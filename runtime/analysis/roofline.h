// The limits of a device, measured with operations that reach them.
#ifndef RUNTIME_ANALYSIS_ROOFLINE_H_
#define RUNTIME_ANALYSIS_ROOFLINE_H_

#include <memory>
#include <optional>
#include <vector>

#include "plugins/host/device.h"
#include "runtime/config/config.h"

namespace runtime::analysis {

// How fast a device moves operands of a size: the smaller ones lie in caches.
struct Bandwidth {
  double bytes = 0;  // of all operands of an operation
  double bytes_per_second = 0;
};

// Equivalent to: the cache-aware roofline model (Ilic, Pratas, Sousa, 2014).
struct Roofline {
  std::vector<Bandwidth> bandwidths;  // by rising size; the rates fall
  double flops_per_second = 0;

  // The rate for a size, in bytes a second: between those of the two sizes around it, in proportion
  // to the logarithm of the size.
  double bandwidth(double bytes) const;
  // The least time of an operation: of its arithmetic, or of its bytes at the rate of their size.
  double least_seconds(double flops, double bytes) const;
};

// The limits for a profile: those that the configuration gives, and for the others the rates of
// additions of several sizes and of a large product of matrices of `dtype`, which take up to about
// a second. nullopt if the device cannot compute these, or has no memory left for them. Ranks that
// share a device or processor call it at the same time, and each gets its share.
std::optional<Roofline> measure_roofline(const config::Profiling& profiling,
                                         const std::shared_ptr<plugins::host::Device>& device,
                                         rt_dtype dtype);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_ROOFLINE_H_
