// The optimizer's update in a step, and a graph that consists of the update alone.
#ifndef RUNTIME_TRAIN_UPDATE_GRAPH_H_
#define RUNTIME_TRAIN_UPDATE_GRAPH_H_

#include "runtime/config/config.h"
#include "runtime/graph/build.h"

namespace runtime::train {

// The operands of the update. `scale` [1] multiplies the gradient.
struct UpdateValues {
  graph::ValueId parameters = graph::kNone, gradients = graph::kNone;
  graph::ValueId learning_rate = graph::kNone, scale = graph::kNone;
  graph::ValueId step = graph::kNone;  // int64 [1], counts from 1, for AdamW; made by add_update
};

// Appends the update with its optimizer state: "momentum", or "adam_m" and "adam_v".
void add_update(graph::Build& build, const config::Optimizer& optimizer, UpdateValues& values);

// The update of a buffer of parameters alone. Persistent values: "parameters", "gradients",
// "scale".
struct UpdateGraph {
  graph::Graph graph;
  UpdateValues values;
};

// Builds the update of `elements` parameters of type `dtype`.
UpdateGraph build_update(const config::Optimizer& optimizer, int64_t elements, rt_dtype dtype);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_UPDATE_GRAPH_H_
