// The passes over the tensor and the pipeline axis, and what they leave on this rank.
#include "runtime/error.h"
#include "runtime/parallel/shard.h"
#include "runtime/step/passes.h"

namespace runtime::step {

using graph::kNone;
using graph::ValueId;

namespace {

parallel::Stages assign_stages(graph::Graph& graph, parallel::StageOptions options, bool beyond) {
  if (!beyond) return parallel::assign_stages(graph, options);
  try {
    return parallel::assign_stages(graph, options);
  } catch (const ConfigurationError&) {  // thrown again below if memory is not the reason
    options.memory_limit = 0;
    return parallel::assign_stages(graph, options);
  }
}

parallel::ScheduleOptions schedule_of(const StepInput& input) {
  parallel::ScheduleOptions schedule = input.strategy.pipeline.schedule;
  if (!input.form.backward()) {
    schedule.backward = false;
    schedule.micro_batches = 1;
  }
  return schedule;
}

}  // namespace

void split_tensors(Step& step, const StepInput& input) {
  const Strategy& strategy = input.strategy;
  if (strategy.mesh.tensor == 1) return;
  std::vector<ValueId> parameters;
  for (const model::Parameter& p : step.values.parameters) parameters.push_back(p.value);
  parallel::ShardOptions o;
  o.rank = strategy.place.tensor;
  o.ranks = strategy.mesh.tensor;
  o.hints = step.values.shard_hints;
  parallel::Sharded sharded = parallel::shard(step.graph, parameters, o);
  step.values.sharded = std::move(sharded.parameters);
  step.notes = std::move(sharded.notes);
}

void cut_stages(Step& step, const StepInput& input) {
  const PipelineParallel& options = input.strategy.pipeline;
  if (input.strategy.mesh.pipeline == 1) return;
  StepValues& values = step.values;
  parallel::Pipeline pipeline;
  pipeline.rank = input.strategy.place.pipeline;
  pipeline.schedule = parallel::make_schedule(schedule_of(input));
  parallel::StageOptions stages;
  stages.stages = pipeline.schedule.stages();
  stages.as = options.stages;
  stages.hints = values.stages;
  stages.memory_limit = options.stage_memory;
  stages.parameter_copies = options.parameter_copies;
  for (int stage = 0; stage < stages.stages; ++stage) {
    const auto& slots = pipeline.schedule.slots[stage % pipeline.schedule.ranks];
    stages.in_flight.push_back(parallel::peak_in_flight(slots, stage / pipeline.schedule.ranks));
  }
  pipeline.stages = assign_stages(step.graph, stages, options.only_planned);
  std::map<ValueId, ValueId> gradients;
  for (size_t i = 0; i < values.gradients.size(); ++i) {
    if (values.gradients[i] != kNone) gradients[values.parameters[i].value] = values.gradients[i];
  }
  parallel::cut_stages(step.graph, pipeline, gradients);
  for (size_t i = 0; i < values.gradients.size(); ++i) {
    const auto kept = gradients.find(values.parameters[i].value);
    values.gradients[i] = kept == gradients.end() ? kNone : kept->second;
  }
  values.pipeline = std::move(pipeline);
}

bool holds(const Step& step, size_t parameter) {
  return !step.values.pipeline ||
         parallel::is_read(step.graph, step.values.parameters[parameter].value);
}

int copies_of_gradient(const StepValues& values, size_t parameter, const Strategy& strategy) {
  const bool whole = values.sharded.empty() || values.sharded[parameter].split.is_whole();
  int copies = whole ? strategy.mesh.tensor : 1;
  if (!values.pipeline) return copies;
  for (const parallel::SharedParameter& shared : values.pipeline->shared) {
    if (shared.parameter == values.parameters[parameter].value)
      copies *= static_cast<int>(shared.ranks.size());
  }
  return copies;
}

}  // namespace runtime::step
