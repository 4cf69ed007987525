// A step of the whole model -> the part of it that a rank of the tensor and pipeline axes computes.
#ifndef RUNTIME_TRAIN_MODEL_PARALLEL_H_
#define RUNTIME_TRAIN_MODEL_PARALLEL_H_

#include <vector>

#include "runtime/config/config.h"
#include "runtime/parallel/mesh.h"
#include "runtime/parallel/schedule.h"
#include "runtime/parallel/stages.h"

namespace runtime::train {

struct StepGraph;

// Where a rank stands, and how the model is cut.
struct ModelParallel {
  parallel::Mesh mesh;
  parallel::MeshPlace place;
  parallel::ScheduleOptions schedule;  // of the pipeline, `ranks` of them
  // How every step of every rank is cut; empty: as the layers say, else by cost.
  std::vector<parallel::StagedLayer> stages;
  // Bytes that a stage may take with its activations, of the rank that has the least; 0: any. All
  // ranks must say the same.
  uint64_t stage_memory = 0;
  double parameter_copies = 4;  // with gradients and the optimizer's state
  bool only_planned = false;    // then stages that take more are cut as if there were enough

  bool several() const { return mesh.tensor * mesh.pipeline > 1; }
};

// Without `stages`. `micro_batches`: of a training step, 0: four a stage.
ModelParallel model_parallel(const config::Parallelism& parallelism, const parallel::Mesh& mesh,
                             int rank);

// Tensor axis: the forward pass with its loss becomes the rank's (parallel/shard.h).
void shard_step(StepGraph& step, const ModelParallel& options);

// Pipeline axis: forward and backward become the rank's (parallel/pipeline.h). Gradients of other
// ranks' parameters become kNone.
void cut_step(StepGraph& step, const ModelParallel& options);

// Whether this rank holds a parameter.
bool holds(const StepGraph& step, size_t parameter);

// In how many ranks of the tensor and pipeline axes a gradient lies, by parameter, for sums over
// all of them.
int copies_of_gradient(const StepGraph& step, size_t parameter, const ModelParallel& options);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_MODEL_PARALLEL_H_
