// What a step of a job will take, from the graphs of its ranks and the times of their nodes.
#ifndef RUNTIME_PARALLEL_PREDICT_H_
#define RUNTIME_PARALLEL_PREDICT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/efficiency.h"

namespace runtime::parallel {

// Collectives of one name in a step.
struct CollectiveCost {
  std::string name;  // "all_reduce, bucket 0"
  int axis = kDataAxis;
  int64_t calls = 0;
  uint64_t bytes = 0;     // of the larger buffers
  double wire_bytes = 0;  // that the rank sends; 0 for a receive
  double seconds = 0;
};

// A rank of one place in the pipeline: those that differ in the other axes are alike.
struct RankPrediction {
  std::vector<CollectiveCost> collectives;  // in the order of their first start
  double compute = 0;
  ByAxis sync = {}, exposed = {}, wire_bytes = {};

  double step() const { return compute + exposed[0] + exposed[1] + exposed[2]; }
};

struct Prediction {
  std::vector<RankPrediction> ranks;  // by place in the pipeline
  StepTimes times;                    // means over them; without compute_alone
};

// The programs of one step in their order, by place in the pipeline.
using StepGraphs = std::vector<std::vector<graph::Graph>>;

// Plays a few steps of all places of a pipeline together, node by node with their estimated times;
// what it returns is of the last one. A collective among alike ranks begins when its start is
// reached, one along the pipeline when all that take part have reached theirs, and none before the
// one before it on the same link is done. Where a link is not in the background it goes on only
// while a rank waits. Compute times are 0 where nodes have none.
Prediction predict(const StepGraphs& graphs, const Mesh& mesh, const Link& link);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_PREDICT_H_
