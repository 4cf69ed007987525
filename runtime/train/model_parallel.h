// Reduces a step of the whole model to what a rank of the tensor and pipeline axes computes.
#ifndef RUNTIME_TRAIN_MODEL_PARALLEL_H_
#define RUNTIME_TRAIN_MODEL_PARALLEL_H_

#include <vector>

#include "runtime/config/config.h"
#include "runtime/parallel/mesh.h"
#include "runtime/parallel/schedule.h"
#include "runtime/parallel/stages.h"

namespace runtime::train {

struct StepGraph;

// This rank's place in the mesh, and how the model is cut.
struct ModelParallel {
  parallel::Mesh mesh;
  parallel::MeshPlace place;
  parallel::ScheduleOptions schedule;  // of the pipeline, whose length is `ranks`
  // The cut into stages that every step of every rank follows; empty: cut by the layers' `stage`
  // and by cost.
  std::vector<parallel::StagedLayer> stages;
  // Bytes that a stage may take with its activations on the rank that has the least; 0: no limit.
  // Must be the same on all ranks.
  uint64_t stage_memory = 0;
  double parameter_copies = 4;  // parameters, gradients and optimizer state, in units of parameters
  bool only_planned = false;    // if no cut fits the memory limit, the limit is ignored

  bool several() const { return mesh.tensor * mesh.pipeline > 1; }
};

// Everything but `stages` and the memory limit. The number of micro-batches of a training step is
// parallelism.microbatches, or four for each stage if that is 0.
ModelParallel model_parallel(const config::Parallelism& parallelism, const parallel::Mesh& mesh,
                             int rank);

// Tensor axis: the forward pass with its loss becomes that of this rank (parallel/shard.h).
void shard_step(StepGraph& step, const ModelParallel& options);

// Pipeline axis: forward and backward become those of this rank (parallel/pipeline.h). Gradients
// that other ranks compute become kNone.
void cut_step(StepGraph& step, const ModelParallel& options);

// Whether this rank holds a parameter (by index).
bool holds(const StepGraph& step, size_t parameter);

// The number of ranks of the tensor and pipeline axes that have a copy of a parameter's gradient.
// Sums over these axes divide by it.
int copies_of_gradient(const StepGraph& step, size_t parameter, const ModelParallel& options);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_MODEL_PARALLEL_H_
