// What a step costs that runs some of its operations on another device (device.host_fallback).
#ifndef RUNTIME_ANALYSIS_FALLBACK_USE_H_
#define RUNTIME_ANALYSIS_FALLBACK_USE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/exec/program.h"

namespace runtime::analysis {

// One operation of one layer, which a step may launch several times. Bytes, and nanoseconds of the
// copies and of the kernel, are those of all launches of a step.
struct FallbackUse {
  std::string phase, layer, operation;
  int64_t launches = 0;
  uint64_t bytes_to_host = 0, bytes_from_host = 0;
  double copy_ns = 0;
  double kernel_ns = 0;  // 0: the fallback device does not estimate times
};

// Adds what one run of the program costs to `uses`. `measured`: the program has been measured
// (exec::Program::measure); otherwise times are estimates.
void add_fallback_uses(const exec::Program& program, bool measured, std::vector<FallbackUse>& uses);

}  // namespace runtime::analysis

#endif  // RUNTIME_ANALYSIS_FALLBACK_USE_H_
