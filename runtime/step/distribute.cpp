// The passes that turn a step of one micro-batch or virtual shard into the whole step of a rank:
// they repeat it for the others and insert the collectives.
#include "runtime/graph/recompute.h"
#include "runtime/parallel/repeat_step.h"
#include "runtime/parallel/schedule_collectives.h"
#include "runtime/parallel/zero.h"
#include "runtime/step/passes.h"

namespace runtime::step {

namespace {

parallel::DistributeOptions options(const StepInput& input, const StepValues& values) {
  const parallel::BatchSplit& batch = input.strategy.batch;
  const DataParallel& data = input.strategy.data;
  const StepForm& form = input.form;
  parallel::DistributeOptions o;
  if (values.pipeline) o.pipeline = &*values.pipeline;
  o.rank = batch.rank;
  o.world_size = batch.world_size;
  o.zero_ranks = input.strategy.mesh.zero_ranks;
  o.overlap = data.overlap;
  if (form.update() || data.zero_stage > 1) o.zero_stage = data.zero_stage;
  o.sync_batch_norm = data.sync_batch_norm;
  o.accumulate = form.accumulate;
  o.reduce = form.purpose != Purpose::kMicroStep;
  if (batch.virtual_shards > 0 && form.backward()) {
    o.shards = batch.shards_of_rank();
    o.total_shards = batch.virtual_shards;
  }
  return o;
}

}  // namespace

void recompute(Step& step, const StepInput& input) {
  if (input.strategy.recompute_blocks) graph::recompute(step.graph, step.values.blocks);
}

void partition_gradients(Step& step, const StepInput& input) {
  parallel::partition_gradients(step.graph, step.values.buffers, options(input, step.values));
}

void repeat_step(Step& step, const StepInput& input) {
  StepValues& v = step.values;
  v.buffers.loss = v.loss;
  v.buffers.correct = v.correct;
  parallel::ShardValues inputs{v.features, v.target, v.weight, v.real, v.sample_base, {}};
  for (const model::NamedInput& named : v.inputs) inputs.named.push_back(named.value);
  v.shards = parallel::repeat_step(step.graph, v.buffers, inputs, options(input, v));
  v.correct = v.buffers.correct;
}

void gather_parameters(Step& step, const StepInput& input) {
  parallel::gather_parameters(step.graph, step.values.buffers, options(input, step.values));
}

void schedule_collectives(Step& step, const StepInput& input) {
  parallel::schedule_collectives(step.graph, step.values.buffers, options(input, step.values));
  step.values.loss = step.values.buffers.loss;
}

}  // namespace runtime::step
