// Which stage of a pipeline computes which layer.
#ifndef RUNTIME_PARALLEL_STAGES_H_
#define RUNTIME_PARALLEL_STAGES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

// Consecutive forward nodes of one layer, and the stage that computes them.
struct StagedLayer {
  std::string layer;
  int stage = 0;
  bool operator==(const StagedLayer&) const = default;
};

// The stage of every node of a step.
struct Stages {
  int count = 1;
  std::vector<int> of_origin;       // by Node::origin
  std::vector<StagedLayer> layers;  // in the order of the forward pass

  int of(const graph::Node& node) const { return of_origin.at(node.origin); }
};

// Input of assign_stages().
struct StageOptions {
  int stages = 1;
  // The cut of another step of the same model, which this step follows; if set, the fields below
  // are ignored. Layers are matched by name, beginning with the last one; a layer that the other
  // step lacks joins the stage of the next one.
  std::vector<StagedLayer> as = {};
  std::map<std::string, int> hints = {};  // stage by layer; layers that the graph lacks are ignored
  // Seconds of each forward node together with the nodes that differentiate it, by Node::origin;
  // empty: estimated from FLOPs and bytes.
  std::vector<double> cost = {};
  // Bytes that a stage may take: parameters times `parameter_copies` (which counts gradients and
  // optimizer state), plus, for each micro-batch in flight, what forward keeps for backward. 0: no
  // limit.
  uint64_t memory_limit = 0;
  double parameter_copies = 4;
  std::vector<int> in_flight = {};  // micro-batches, by stage; empty: 1
};

// Cuts the forward nodes between layers so that the most loaded stage has the least to do; among
// cuts that are within a few percent of that, takes the one whose stages send the fewest bytes. A
// node that is computed from parameters only belongs to the first layer that reads them, wherever
// the node stands. The graph is that of one micro-batch, with or without its backward pass; forward
// nodes without an origin get one. Throws ConfigurationError if hints or memory leave no possible
// cut.
//
// The cut depends on dims, which may differ between ranks: tensor-parallel slices of a layer may be
// uneven, and data-parallel ranks may have different numbers of samples. Ranks that cut differently
// would wait for values that no rank sends. So all ranks of a job compute the cut of one and the
// same rank's step and follow it (`as`) in their own steps, by layer names only.
Stages assign_stages(graph::Graph& graph, const StageOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_STAGES_H_
