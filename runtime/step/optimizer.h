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

// The operands of the update. `scale` [1] multiplies the gradient.
struct UpdateValues {
  graph::ValueId parameters = graph::kNone, gradients = graph::kNone;
  graph::ValueId learning_rate = graph::kNone, scale = graph::kNone;
  graph::ValueId narrow = graph::kNone;  // the 16-bit copy that the update writes; kNone: none
  graph::ValueId step = graph::kNone;  // int64 [1], counts from 1, for AdamW; made by add_optimizer
};

// The names of the buffers of optimizer state, each as large as the parameters: "momentum", or
// "adam_m" and "adam_v"; none for SGD without momentum.
std::vector<std::string> optimizer_state(const config::Optimizer& optimizer);

// Appends the update with its optimizer state, optimizer_state().
void add_optimizer(graph::Build& build, const config::Optimizer& optimizer, UpdateValues& values);

// The update of a buffer of parameters alone. Persistent values: "parameters", "gradients",
// "scale".
struct Update {
  graph::Graph graph;
  UpdateValues values;
};

// Builds the update of `elements` parameters of type `dtype`.
Update build_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype);

// Builds the same update, fitted to a device. If the layout keeps vectors (biases, scales) apart,
// the update is split into ranges, and those of the vectors have no weight decay. Throws
// DeviceError if the device cannot run it.
Update compile_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype,
                      const parallel::FlatLayout& layout, graph::Target& target);

}  // namespace runtime::step

#endif  // RUNTIME_STEP_OPTIMIZER_H_
