// Small steps (forward, loss, gradients), and one rank's stages of them in a pipeline.
#ifndef TESTS_RUNTIME_PARALLEL_PIPELINE_STEP_H_
#define TESTS_RUNTIME_PARALLEL_PIPELINE_STEP_H_

#include <map>
#include <string>
#include <vector>

#include "tests/runtime/parallel/distribute.h"

namespace runtime::parallel {

enum class Net {
  kMlp,   // eight linear layers, two with a shared matrix, and a penalty on the first weight
  kConv,  // convolutions around a residual connection that spans stages
  kNorm,  // ordinary and split batch normalisation
};

struct Step {
  graph::Graph graph;
  ShardValues inputs;
  graph::ValueId loss = graph::kNone, one = graph::kNone;
  std::vector<graph::ValueId> parameters;
  std::map<graph::ValueId, graph::ValueId> gradients;  // by parameter
};

// `share` is the factor of the penalty.
Step make_step(Net net, int64_t batch, double share, bool gradients = true);

// The nodes that rank `rank` of a pipeline has in the step of one micro-batch, with parameters and
// gradients in flat buffers. `data_ranks` is the number of pipelines that share the batch.
struct RankStep {
  int data;
  Step step;
  Pipeline pipeline;
  StepBuffers buffers;
  std::vector<graph::ValueId> gradients;  // by parameter of the step, inside the buffer "gradients"
  Distributed values;                     // the result of unroll()

  // `hints` are stages by layer.
  RankStep(Net net, int64_t batch, const ScheduleOptions& options, int rank, int data_ranks = 1,
           const std::map<std::string, int>& hints = {});
  // Unrolls the step into the micro-batches of the schedule.
  void unroll();

 private:
  graph::ValueId flat(const std::string& name, graph::ValueKind kind);
  void place(bool with_gradients);
  graph::ValueId place_gradient(graph::ValueId parameter, uint64_t offset);
};

}  // namespace runtime::parallel

#endif  // TESTS_RUNTIME_PARALLEL_PIPELINE_STEP_H_
