// The data-parallel pass: makes one rank's step the same step as part of a job of several ranks.
#ifndef RUNTIME_PARALLEL_DISTRIBUTE_H_
#define RUNTIME_PARALLEL_DISTRIBUTE_H_

#include <vector>

#include "runtime/graph/graph.h"
#include "runtime/parallel/flat_layout.h"
#include "runtime/parallel/mesh.h"
#include "runtime/parallel/pipeline.h"

namespace runtime::parallel {

// The inputs that a rank writes before a step, one set for each virtual shard or micro-batch;
// kNone: no node of this rank reads that input.
struct ShardValues {
  graph::ValueId features = graph::kNone, target = graph::kNone, weight = graph::kNone;
  graph::ValueId sample_base = graph::kNone;
};

// Input of distribute(): this rank, and how the step is distributed.
struct DistributeOptions {
  // Of the data axis.
  int rank = 0, world_size = 1;
  // Whether collectives run during the backward pass. If not, they start after it; with zero_stage
  // 2 and 3 each is then waited for where it starts.
  bool overlap = true;
  // The ZeRO stage. 1: the optimizer state is partitioned, 2: the gradients too, 3: the parameters
  // too. Stages 2 and 3 cannot be combined with `shards` or `pipeline`.
  int zero_stage = 0;
  bool sync_batch_norm = false;  // batch statistics over all ranks of the data axis
  // Results that do not depend on the number of ranks: the graph becomes `shards` copies that run
  // in lockstep, one for each virtual shard of this rank, of `total_shards` in the job. 0: off.
  int shards = 0, total_shards = 0;
  // Micro-steps: `accumulate` adds gradients to those of earlier micro-steps; `reduce` is set on
  // the last one only, which reduces them (from zero_stage 2 on every micro-step reduces).
  bool accumulate = false, reduce = true;
  // If set, each micro-batch becomes a copy; the copies run in the order of the schedule. Not with
  // `shards`. Not owned.
  const Pipeline* pipeline = nullptr;

  // Whether ZeRO stage `stage` applies.
  bool sharded(int stage) const { return zero_stage >= stage && world_size > 1; }
  int copies() const {
    return pipeline != nullptr ? pipeline->schedule.micro_batches : shards > 0 ? shards : 1;
  }
};

// The flat buffers of the step and the offsets of parameters in them.
struct StepBuffers {
  FlatLayout layout;
  graph::ValueId parameters = graph::kNone;
  // kNone: no backward pass. distribute() may append an element for the loss behind layout.bytes.
  graph::ValueId gradients = graph::kNone;
  graph::ValueId loss = graph::kNone;     // [1], this rank's contribution to the mean
  graph::ValueId correct = graph::kNone;  // [1], only of an evaluation
  // Parameters that are not trained, and where they lie.
  graph::ValueId frozen = graph::kNone;
  FlatLayout frozen_layout = {};
};

// The values that the caller writes before and reads after a distributed step.
struct Distributed {
  std::vector<ShardValues> shards;
  graph::ValueId loss = graph::kNone;     // [1], summed over all ranks if this step reduces it
  graph::ValueId correct = graph::kNone;  // [1], of this rank's samples
};

// Rewrites a graph that has been through all other passes: copies of a node share its kernel, and
// no kernel is chosen anew.
// - `batch_norm_statistics` and `batch_norm_backward_statistics` are gathered before they are
//   merged (over virtual shards, and with sync_batch_norm over ranks).
// - Each bucket is all-reduced as soon as its last gradient is complete. The last parameters come
//   first, and the loss travels with their bucket.
// - With zero_stage 1 a bucket is reduce-scattered and the parameters are all-gathered after the
//   update. From stage 2 on a bucket's whole gradients are a temporary until then, and with stage
//   3 so are its parameters; see zero.h.
// - With virtual shards, every rank sends their gradients to the ranks that own the respective
//   slice of the bucket, and each owner adds them in one fixed binary tree.
// - With a pipeline, micro-batches follow its schedule; their losses are added up and broadcast to
//   all its ranks.
// - The update is split by bucket unless it needs the norm of the whole gradient.
// Throws Error if the graph has operations that it cannot split. Equivalent to: PyTorch's
// DistributedDataParallel with its buckets, or DeepSpeed's ZeRO optimizer.
Distributed distribute(graph::Graph& graph, const StepBuffers& buffers, const ShardValues& inputs,
                       const DistributeOptions& options);

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_DISTRIBUTE_H_
