// Predicts the time of a job's step from the graphs of its ranks and the times of their nodes.
#ifndef RUNTIME_PARALLEL_PREDICT_H_
#define RUNTIME_PARALLEL_PREDICT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/cluster.h"

namespace runtime::parallel {

// The collectives of one name in a step, added up.
struct CollectiveCost {
  std::string name;  // "all_reduce, bucket 0"
  int axis = kDataAxis;
  int64_t calls = 0;
  uint64_t bytes = 0;     // the sizes of the calls' buffers; if a call has two, of the larger one
  double wire_bytes = 0;  // the bytes that this rank sends; 0 if it only receives
  double between_nodes = 0;  // of wire_bytes, those to other nodes
  double seconds = 0;        // the times of the transfers, without waiting for other ranks
};

// The predicted step of the ranks at one place in the pipeline; ranks that differ only in other
// axes are alike. All times are in seconds.
struct RankPrediction {
  std::vector<CollectiveCost> collectives;  // in the order of their first start
  double compute = 0;
  ByAxis sync = {}, exposed = {}, wire_bytes = {};

  double step() const { return compute + exposed[0] + exposed[1] + exposed[2]; }
};

// The predicted step of all ranks.
struct Prediction {
  std::vector<RankPrediction> ranks;  // by place in the pipeline
  StepTimes times;                    // means over `ranks`; compute_alone is not set
};

// By place in the pipeline: the programs of one step in the order of execution. Micro-steps that
// run the same program share its graph, because a step may have thousands of them.
using StepGraphs = std::vector<std::vector<std::shared_ptr<const graph::Graph>>>;

// Simulates a few steps of all places of a pipeline together, node by node with their estimated
// times, and returns the last step. A collective of the data or tensor axis begins when this rank
// reaches its start node, and a collective of the pipeline axis when all its ranks have reached
// their start nodes. The collectives of one communicator (for transfers: those from one sender to
// one receiver) run one after the other. If the links inside a node do not work in the background,
// a collective progresses only while a rank waits for it. Nodes without a time take 0 s. Throws
// Error if a rank would wait for ever.
Prediction predict(const StepGraphs& graphs, const Mesh& mesh, const Cluster& cluster);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_PREDICT_H_
