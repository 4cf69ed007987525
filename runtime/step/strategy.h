// How the step of a run is cut for one rank: the only answer to that question.
#ifndef RUNTIME_STEP_STRATEGY_H_
#define RUNTIME_STEP_STRATEGY_H_

#include <cstdint>
#include <vector>

#include "rt/common.h"
#include "runtime/parallel/batch_split.h"
#include "runtime/parallel/flat_layout.h"
#include "runtime/parallel/mesh.h"
#include "runtime/parallel/schedule.h"
#include "runtime/parallel/stages.h"

namespace runtime::step {

// Types of numbers.
struct Precision {
  rt_dtype parameters = RT_FLOAT32;  // also of gradients, optimizer state and the loss
  rt_dtype activations = 0;          // float16 or bfloat16 beside float32; 0: as `parameters`
};

// The pipeline axis. Its length is schedule.ranks; 1: no pipeline.
struct PipelineParallel {
  parallel::ScheduleOptions schedule = {};
  // The cut into stages that every step of every rank follows; empty: cut by the layers' `stage`
  // and by cost.
  std::vector<parallel::StagedLayer> stages = {};
  // Bytes that a stage may take with its activations on the rank that has the least; 0: no limit.
  // Must be the same on all ranks.
  uint64_t stage_memory = 0;
  double parameter_copies = 4;  // parameters, gradients and optimizer state, in units of parameters
  bool only_planned = false;    // if no cut fits the memory limit, the limit is ignored
};

// The data axis; see parallel::DistributeOptions.
struct DataParallel {
  bool overlap = true;
  int zero_stage = 0;
  bool sync_batch_norm = false;
};

// Shared by all forms of a run's step. The fields about samples (`batch.weights`) are set again
// when the ranks have measured their speed.
struct Strategy {
  parallel::Mesh mesh = {};
  parallel::MeshPlace place = {};   // of this rank
  parallel::BatchSplit batch = {};  // which samples of a global batch the rank computes
  Precision precision = {};
  PipelineParallel pipeline = {};
  DataParallel data = {};
  parallel::FlatLayoutOptions buckets = {};  // how the flat buffers are cut
  bool recompute_blocks = false;             // activations are recomputed in the backward pass

  // Whether one model is spread over several ranks.
  bool model_parallel() const { return mesh.tensor * mesh.pipeline > 1; }
  // Whether ZeRO stage `stage` applies.
  bool zero_partitions(int stage) const { return data.zero_stage >= stage && batch.world_size > 1; }
  // The ZeRO partition of this rank, and the communicator of those that together have them all.
  int partition() const { return place.data % mesh.partitions(); }
  int partitions_communicator() const {
    return mesh.replicas() > 1 ? parallel::kPartitionsCommunicator
                               : parallel::kGradientsCommunicator;
  }
};

}  // namespace runtime::step

#endif  // RUNTIME_STEP_STRATEGY_H_
