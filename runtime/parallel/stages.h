// Which stage of a pipeline computes which layer.
#ifndef RUNTIME_PARALLEL_STAGES_H_
#define RUNTIME_PARALLEL_STAGES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

// Nodes of one layer that follow each other in the forward pass, and where they are computed.
struct StagedLayer {
  std::string layer;
  int stage = 0;
  bool operator==(const StagedLayer&) const = default;
};

struct Stages {
  int count = 1;
  std::vector<int> of_origin;       // by Node::origin
  std::vector<StagedLayer> layers;  // in the order of the forward pass

  int of(const graph::Node& node) const { return of_origin.at(node.origin); }
};

struct StageOptions {
  int stages = 1;
  // How another step of the same model was cut, which this step follows; nothing below counts then.
  // Layers are matched by name from the end; one that the other step lacks goes with the next one.
  std::vector<StagedLayer> as = {};
  std::map<std::string, int> hints = {};  // by layer; layers that the graph has not are ignored
  // Time of a forward node and of what differentiates it, by Node::origin; empty: from FLOPs and
  // bytes.
  std::vector<double> cost = {};
  // Bytes that a stage may take: parameters times `parameter_copies` (with gradients and optimizer
  // state), and for each micro-batch in flight what forward keeps for backward. 0: any.
  uint64_t memory_limit = 0;
  double parameter_copies = 4;
  std::vector<int> in_flight = {};  // micro-batches by stage; empty: 1
};

// Cuts the forward nodes between layers so that the most loaded stage has the least to do; among
// cuts that are almost as good, those that send the fewest bytes. What is computed from parameters
// only belongs to the layer of these, wherever it stands. The graph is that of one micro-batch,
// with or without its backward pass; forward nodes without an origin get one. Throws
// ConfigurationError where hints or memory leave no way.
//
// The cut depends on dims, and those of a rank may be its own: tensor-parallel ranks have uneven
// parts of a layer, data-parallel ranks uneven parts of a batch. Ranks that cut differently wait
// for values that nobody sends. So all ranks of a job cut the step of the same one of them and
// follow that (`as`) in their own steps, which looks at names only.
Stages assign_stages(graph::Graph& graph, const StageOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_STAGES_H_
