// The step compiler: from a model and a strategy to the graph that a rank runs on its device.
#ifndef RUNTIME_STEP_COMPILE_STEP_H_
#define RUNTIME_STEP_COMPILE_STEP_H_

#include <functional>

#include "runtime/graph/target.h"
#include "runtime/step/step_input.h"

namespace runtime::step {

// Called after each pass with its name.
using AfterPass = std::function<void(const char* pass, const Step& step)>;

// Runs all passes; the graph can be run on the device of `target`. Throws ConfigurationError if the
// configuration does not fit the model, the data set or the mesh, DeviceError if the device cannot
// run the step, and InternalError if a pass leaves a graph that is not sound (graph/check.h).
// Equivalent to: torch.compile of forward, backward and optimizer, ahead of time.
Step compile_step(const StepInput& input, graph::Target& target, const AfterPass& after = nullptr);

// Runs the passes that need no device. The result is this rank's forward pass, backward pass and
// update for one micro-batch or virtual shard (see the glossary in runtime/README.md).
Step build_step(const StepInput& input, const AfterPass& after = nullptr);

}  // namespace runtime::step

#endif  // RUNTIME_STEP_COMPILE_STEP_H_
