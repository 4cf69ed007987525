#include "runtime/train/model_parallel.h"

#include "runtime/error.h"
#include "runtime/parallel/shard.h"
#include "runtime/train/step_graph.h"

namespace runtime::train {

using graph::kNone;
using graph::ValueId;
using parallel::ScheduleKind;

namespace {

// Keeps the bubble of 1F1B with p stages below a fifth: (p-1) / (4p+p-1).
constexpr int kMicroBatchesOfStage = 4;
constexpr int kInterleavedChunks = 2;

parallel::Stages assign_stages(StepGraph& step, parallel::StageOptions options, bool beyond) {
  if (!beyond) return parallel::assign_stages(step.graph, options);
  try {
    return parallel::assign_stages(step.graph, options);
  } catch (const ConfigurationError&) {  // thrown again below if memory is not the reason
    options.memory_limit = 0;
    return parallel::assign_stages(step.graph, options);
  }
}

}  // namespace

ModelParallel model_parallel(const config::Parallelism& p, const parallel::Mesh& mesh, int rank) {
  ModelParallel m;
  m.mesh = mesh;
  m.place = mesh.place_of(rank);
  if (mesh.pipeline == 1) return m;
  m.schedule.ranks = mesh.pipeline;
  m.schedule.micro_batches =
      p.microbatches > 0 ? p.microbatches : kMicroBatchesOfStage * mesh.pipeline;
  m.schedule.kind = p.pipeline_schedule == "gpipe"  ? ScheduleKind::kGpipe
                    : p.pipeline_schedule == "1f1b" ? ScheduleKind::kOneForwardOneBackward
                                                    : ScheduleKind::kInterleaved;
  if (m.schedule.kind == ScheduleKind::kInterleaved) m.schedule.chunks = kInterleavedChunks;
  return m;
}

void shard_step(StepGraph& step, const ModelParallel& options) {
  if (options.mesh.tensor == 1) return;
  std::vector<ValueId> parameters;
  for (const model::Parameter& p : step.parameters) parameters.push_back(p.value);
  parallel::ShardOptions o;
  o.rank = options.place.tensor;
  o.ranks = options.mesh.tensor;
  o.hints = step.shards;
  parallel::Sharded sharded = parallel::shard(step.graph, parameters, o);
  step.sharded = std::move(sharded.parameters);
  step.notes = std::move(sharded.notes);
}

void cut_step(StepGraph& step, const ModelParallel& options) {
  if (options.mesh.pipeline == 1) return;
  parallel::Pipeline pipeline;
  pipeline.rank = options.place.pipeline;
  pipeline.schedule = parallel::make_schedule(options.schedule);
  parallel::StageOptions stages;
  stages.stages = pipeline.schedule.stages();
  stages.as = options.stages;
  stages.hints = step.stages;
  stages.memory_limit = options.stage_memory;
  stages.parameter_copies = options.parameter_copies;
  for (int stage = 0; stage < stages.stages; ++stage) {
    const auto& slots = pipeline.schedule.slots[stage % pipeline.schedule.ranks];
    stages.in_flight.push_back(parallel::peak_in_flight(slots, stage / pipeline.schedule.ranks));
  }
  pipeline.stages = assign_stages(step, stages, options.only_planned);
  std::map<ValueId, ValueId> gradients;
  for (size_t i = 0; i < step.gradients.size(); ++i) {
    if (step.gradients[i] != kNone) gradients[step.parameters[i].value] = step.gradients[i];
  }
  parallel::cut_stages(step.graph, pipeline, gradients);
  for (size_t i = 0; i < step.gradients.size(); ++i) {
    const auto kept = gradients.find(step.parameters[i].value);
    step.gradients[i] = kept == gradients.end() ? kNone : kept->second;
  }
  step.pipeline = std::move(pipeline);
}

bool holds(const StepGraph& step, size_t parameter) {
  return !step.pipeline || parallel::is_read(step.graph, step.parameters[parameter].value);
}

int copies_of_gradient(const StepGraph& step, size_t parameter, const ModelParallel& options) {
  const bool whole = step.sharded.empty() || step.sharded[parameter].split.is_whole();
  int copies = whole ? options.mesh.tensor : 1;
  if (!step.pipeline) return copies;
  for (const parallel::SharedParameter& shared : step.pipeline->shared) {
    if (shared.parameter == step.parameters[parameter].value)
      copies *= static_cast<int>(shared.ranks.size());
  }
  return copies;
}

}  // namespace runtime::train
