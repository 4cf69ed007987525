// The optimizer's update, in a step and alone.
#ifndef RUNTIME_STEP_OPTIMIZER_H_
#define RUNTIME_STEP_OPTIMIZER_H_

#include <string>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/graph/build.h"
#include "runtime/graph/target.h"
#include "runtime/parallel/flat_layout.h"

namespace runtime::step {

// The inputs of an update that change from step to step; add_optimizer() makes them.
struct UpdateInputs {
  struct LearningRate {
    graph::ValueId value = graph::kNone;  // [1]
    double factor = 1;                    // to the rate of the schedule
  };
  std::vector<LearningRate> learning_rates;  // one for each different rate of a parameter group
  graph::ValueId step = graph::kNone;        // int64 [1], counts from 1; kNone: not needed
  graph::ValueId first = graph::kNone;       // [1]: 1 in the first step, else 0; kNone: not needed
};

// The operands of the update.
struct UpdateValues {
  graph::ValueId parameters = graph::kNone, gradients = graph::kNone;
  graph::ValueId scale = graph::kNone;   // [1], multiplies the gradient
  bool scaled = true;                    // false: `scale` is 1 in all steps
  graph::ValueId narrow = graph::kNone;  // the 16-bit copy that the update writes; kNone: none
  UpdateInputs inputs;                   // made by add_optimizer()
};

// The buffer of the moving average of the parameters.
inline constexpr const char* kAverage = "average";

// The names of the buffers of optimizer state of all parameter groups, each as large as the
// parameters: "momentum", or "adam_m" and "adam_v"; none for SGD without momentum. kAverage is one
// of them where there is an average.
std::vector<std::string> optimizer_state(const config::Optimizer& optimizer);

// Appends the update with its optimizer state, optimizer_state(): an optimizer for each parameter
// group, in the order of update_rules(). With max_value above 0, each number of the gradient is
// clipped to it first.
void add_optimizer(graph::Build& build, const config::Optimizer& optimizer, UpdateValues& values,
                   double max_value = 0);

// The update of a buffer of parameters alone. Persistent values: "parameters", "gradients",
// "scale".
struct Update {
  graph::Graph graph;
  UpdateValues values;
  std::vector<std::string> notes = {};  // lines for the log
};

// Builds the update of `elements` parameters of type `dtype`; `cuts` of their flat buffers.
Update build_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype,
                    const std::vector<uint64_t>& cuts = {});

// Builds the same update, fitted to a device. If there are several parameter groups, or if the flat
// buffers are cut, the update is split into the ranges of the layout. Throws DeviceError if the
// device cannot run it.
Update compile_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype,
                      const parallel::FlatLayout& layout, graph::Target& target);

}  // namespace runtime::step

#endif  // RUNTIME_STEP_OPTIMIZER_H_
