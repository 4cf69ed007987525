// The least time of a step: what the kernels of its plans cost by the limits of a device.
#ifndef RUNTIME_ANALYSIS_LEAST_TIME_H_
#define RUNTIME_ANALYSIS_LEAST_TIME_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/exec/program.h"

namespace runtime::analysis {

// The limits of a device: its bandwidth, its arithmetic and how close kernels follow each other.
struct DeviceLimits {
  double bytes_per_second = 0, flops_per_second = 0;
  double launch_seconds = 0;  // from the end of one kernel to the begin of the next

  // The least time of a kernel with the gap behind it.
  double seconds(double flops, double bytes) const {
    return std::max(bytes / bytes_per_second, flops / flops_per_second) + launch_seconds;
  }
};

// All kernels of one name that one implementation of an operation queues in a step.
struct KernelTime {
  std::string operation, implementation, kernel;
  int64_t launches = 0;
  double bytes = 0, flops = 0;
  double seconds = 0;  // the sum over its launches, without the gaps between them
};

// A step of one rank.
struct LeastTime {
  std::vector<KernelTime> kernels;  // the longest first
  int64_t launches = 0;
  double bytes = 0, flops = 0, kernel_seconds = 0, gap_seconds = 0;
  // Operations that are not in these numbers: the plugin does not tell their kernels, or they are
  // collectives, or the host computes them.
  std::vector<std::string> left_out;
  double seconds() const { return kernel_seconds + gap_seconds; }
};

// A kernel takes the larger one of bytes / bytes_per_second and flops / flops_per_second, and a gap
// follows each. The program runs `passes` times in a step, its update once. Equivalent to: the
// roofline model (Williams, Waterman, Patterson, 2009), kernel by kernel.
LeastTime least_time(const exec::Program& program, int64_t passes, const DeviceLimits& limits);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_LEAST_TIME_H_
