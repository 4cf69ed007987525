// The facts that the passes which distribute a step are told: the rank, the buffers, the inputs.
#ifndef RUNTIME_PARALLEL_DISTRIBUTION_H_
#define RUNTIME_PARALLEL_DISTRIBUTION_H_

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
  graph::ValueId real = graph::kNone, sample_base = graph::kNone;
  std::vector<graph::ValueId> named = {};  // the named inputs of the samples

  std::vector<graph::ValueId> all() const {
    std::vector<graph::ValueId> values = {features, target, weight, real, sample_base};
    values.insert(values.end(), named.begin(), named.end());
    return values;
  }
};

// This rank, and how the step is distributed.
struct DistributeOptions {
  // Of the data axis.
  int rank = 0, world_size = 1;
  // Whether collectives run during the backward pass. If not, they start after it; with zero_stage
  // 2 and 3 each is then waited for where it starts.
  bool overlap = true;
  // The ZeRO stage. 1: the optimizer state is partitioned, 2: the gradients too, 3: the parameters
  // too. Stages 2 and 3 cannot be combined with `shards`.
  int zero_stage = 0;
  // Among how many neighbours ZeRO divides its state; 0: all ranks (Mesh::zero_ranks).
  int zero_ranks = 0;
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
  bool zero_partitions(int stage) const { return zero_stage >= stage && world_size > 1; }
  // How many partitions there are, and which one this rank has.
  int partitions() const { return zero_ranks > 0 ? zero_ranks : world_size; }
  int partition() const { return rank % partitions(); }
  // Whether several ranks have each partition.
  bool has_replicas() const { return zero_partitions(1) && partitions() < world_size; }
  // The communicator of the ranks that together have all partitions.
  int partitions_communicator() const {
    return has_replicas() ? kPartitionsCommunicator : kGradientsCommunicator;
  }
  int copies() const {
    return pipeline != nullptr ? pipeline->schedule.micro_batches : shards > 0 ? shards : 1;
  }
};

// The flat buffers of the step, the offsets of parameters in them, and what earlier passes over the
// step have left for later ones.
struct StepBuffers {
  FlatLayout layout = {};
  graph::ValueId parameters = graph::kNone;
  // The copy of `parameters` in 16 bits that is kept between steps; kNone: the step has none.
  graph::ValueId narrow = graph::kNone;
  // kNone: no backward pass. schedule_collectives() may append an element for the loss, at byte
  // layout.bytes.
  graph::ValueId gradients = graph::kNone;
  // Parameters that are not trained, and where they lie.
  graph::ValueId frozen = graph::kNone;
  FlatLayout frozen_layout = {};
  // [1]: the loss of the step; schedule_collectives() makes it the sum over copies, and over the
  // ranks where the step reduces it. In between `losses` holds.
  graph::ValueId loss = graph::kNone;
  graph::ValueId correct = graph::kNone;  // [1], only of an evaluation

  // From partition_gradients(), by bucket: the value with its whole gradients; repeat_step() makes
  // it one for each micro-batch of a pipeline, but for a bucket with tied parameters of several
  // stages, in whose value they are added up. Empty: all are in `gradients`.
  std::vector<std::vector<graph::ValueId>> bucket_gradients = {};
  // From repeat_step(), by copy: the buffer that its gradients go to, and its loss (with a pipeline
  // one loss, the sum).
  std::vector<graph::ValueId> shard_gradients = {}, losses = {};
};

}  // namespace runtime::parallel

#endif  // RUNTIME_PARALLEL_DISTRIBUTION_H_
