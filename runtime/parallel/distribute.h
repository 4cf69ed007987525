// The data-parallel pass: one rank's step -> the same step as part of a job of several ranks.
#ifndef RUNTIME_PARALLEL_DISTRIBUTE_H_
#define RUNTIME_PARALLEL_DISTRIBUTE_H_

#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/flat_layout.h"
#include "runtime/parallel/mesh.h"
#include "runtime/parallel/pipeline.h"

namespace runtime::parallel {

// What a rank writes before a step, once for each shard or micro-batch; kNone: nothing here reads
// it.
struct ShardValues {
  graph::ValueId features = graph::kNone, target = graph::kNone, weight = graph::kNone;
  graph::ValueId sample_base = graph::kNone;
};

struct DistributeOptions {
  int rank = 0, world_size = 1;
  // Else all collectives start after the backward pass, those of zero_stage 2 and 3 where they are
  // waited for.
  bool overlap = true;
  // 1: optimizer state sharded, 2: gradients too, 3: parameters too. Not 2 and 3 with `shards` or
  // `pipeline`.
  int zero_stage = 0;
  bool sync_batch_norm = false;  // statistics over all ranks
  // Deterministic over ranks: the graph becomes `shards` copies that run in lockstep, of
  // `total_shards` in the job. 0: not.
  int shards = 0, total_shards = 0;
  // Micro-steps: gradients are added to those of the steps before, and only the last reduces them
  // (from zero_stage 2 on every one does).
  bool accumulate = false, reduce = true;
  // Its micro-batches become copies that run in the order of the schedule. Not with `shards`.
  const Pipeline* pipeline = nullptr;

  bool sharded(int stage) const { return zero_stage >= stage && world_size > 1; }
  int copies() const {
    return pipeline != nullptr ? pipeline->schedule.micro_batches : shards > 0 ? shards : 1;
  }
};

// The flat buffers of the step and where things lie in them.
struct StepBuffers {
  FlatLayout layout;
  graph::ValueId parameters = graph::kNone;
  // kNone: no backward pass. The pass adds room for the loss behind layout.bytes.
  graph::ValueId gradients = graph::kNone;
  graph::ValueId loss = graph::kNone;     // [1], this rank's part of the mean
  graph::ValueId correct = graph::kNone;  // [1], of an evaluation
  // Parameters that are not trained.
  graph::ValueId frozen = graph::kNone;
  FlatLayout frozen_layout = {};
};

struct Distributed {
  std::vector<ShardValues> shards;
  graph::ValueId loss = graph::kNone;     // [1], over all ranks where the step reduces it
  graph::ValueId correct = graph::kNone;  // [1], of the rank's part of the batch
};

// Rewrites a graph that has been through all other passes (kernels may be shared by shards, but
// are never chosen anew). Parts of it:
// - `batch_norm_statistics` and `batch_norm_backward_statistics` are gathered before they are
//   merged (over shards, and with sync_batch_norm over ranks);
// - each bucket is all-reduced as soon as its last gradient is there, the last parameters first,
//   the loss with the first of them;
// - with zero_stage 1 it is reduce-scattered, and the parameters are gathered after the update;
//   from 2 on its whole gradients are a temporary until that is done, with 3 its parameters are one
//   too, see zero.h;
// - with shards, every rank sends its shards' gradients to the ranks that own the part of the
//   buffer, and the owner adds them in one fixed binary tree;
// - with a pipeline, micro-batches follow its schedule, and their losses are added up and sent to
//   all its ranks;
// - the update is split by bucket where the norm of the whole gradient is not needed.
// Throws Error when the graph has operations that it cannot split.
Distributed distribute(graph::Graph& graph, const StepBuffers& buffers, const ShardValues& inputs,
                       const DistributeOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_DISTRIBUTE_H_
