// Which stage of a pipeline computes which layer.
#ifndef RUNTIME_PARALLEL_STAGES_H_
#define RUNTIME_PARALLEL_STAGES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"

namespace runtime::parallel {

struct Stages {
  int count = 1;
  std::vector<int> of_origin;  // by Node::origin
  // Hints for another step of the same model. A layer whose nodes do not follow each other has an
  // entry for each part: "conv1", "conv1#2", ...
  std::map<std::string, int> layers;

  int of(const graph::Node& node) const { return of_origin.at(node.origin); }
};

struct StageOptions {
  int stages = 1;
  // By layer, or by part of one as in Stages::layers. Layers that the graph has not are ignored.
  std::map<std::string, int> hints = {};
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
Stages assign_stages(graph::Graph& graph, const StageOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_STAGES_H_
