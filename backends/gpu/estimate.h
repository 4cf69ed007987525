// How long a kernel takes, guessed from its bytes and floating-point operations.
#ifndef BACKENDS_GPU_ESTIMATE_H_
#define BACKENDS_GPU_ESTIMATE_H_

#include "backends/gpu/plan.h"

namespace backends::gpu {

// Nanoseconds of one launch, for rt_candidate.estimated_ns: always positive. The guess serves to
// compare layouts where nothing is measured, so only the ratio of two guesses has a meaning.
double estimated_ns(const Properties& properties, const Operation& op, const Kernel& kernel);

}  // namespace backends::gpu

#endif  // BACKENDS_GPU_ESTIMATE_H_
