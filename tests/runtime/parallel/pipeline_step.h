// Small steps (forward, loss, gradients) and one rank's part of them in a pipeline.
#ifndef TESTS_RUNTIME_PARALLEL_PIPELINE_STEP_H_
#define TESTS_RUNTIME_PARALLEL_PIPELINE_STEP_H_

#include <map>
#include <string>
#include <vector>

#include "runtime/parallel/distribute.h"

namespace runtime::parallel {

enum class Net {
  kMlp,   // eight linear layers with a penalty on the first weight, of which two share one matrix
  kConv,  // convolutions around a residual connection that spans stages
  kNorm,  // batch normalisation, whole and in parts
};

struct Step {
  graph::Graph graph;
  ShardValues inputs;
  graph::ValueId loss = graph::kNone, one = graph::kNone;
  std::vector<graph::ValueId> parameters;
  std::map<graph::ValueId, graph::ValueId> gradients;  // by parameter
};

// `share`: of the penalty.
Step make_step(Net net, int64_t batch, double share, bool gradients = true);

// What rank `rank` of a pipeline has of the step of one micro-batch; parameters and gradients lie
// in flat buffers. `data`: pipelines that share the batch.
struct RankStep {
  int data;
  Step step;
  Pipeline pipeline;
  StepBuffers buffers;
  std::vector<graph::ValueId> gradients;  // by parameter of the step, in "gradients"
  Distributed values;                     // of unroll()

  // `hints`: stages by layer.
  RankStep(Net net, int64_t batch, const ScheduleOptions& options, int rank, int data_ranks = 1,
           const std::map<std::string, int>& hints = {});
  // The second pass.
  void unroll();

 private:
  graph::ValueId flat(const std::string& name, graph::ValueKind kind);
  void place(bool with_gradients);
  graph::ValueId place_gradient(graph::ValueId parameter, uint64_t offset);
};

}  // namespace runtime::parallel

#endif  // TESTS_RUNTIME_PARALLEL_PIPELINE_STEP_H_
