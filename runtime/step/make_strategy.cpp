// Reads mesh, batch, pipeline, buckets and precision from the configuration, with what "auto"
// means.
#include "runtime/step/make_strategy.h"

#include <algorithm>

#include "runtime/row_of.h"
#include "runtime/step/compile_step.h"
#include "runtime/step/optimizer.h"
#include "runtime/step/ranks.h"

namespace runtime::step {

namespace {

// The size of the first bucket in PyTorch's DistributedDataParallel.
constexpr uint64_t kFirstBucketBytes = 1 << 20;
// With ZeRO stages 2 and 3 a few buckets at a time are in memory, so there must be many of them.
constexpr uint64_t kZeroBuckets = 16;
// Keeps the bubble of 1F1B with p stages below a fifth: (p-1) / (4p+p-1).
constexpr int kMicroBatchesOfStage = 4;
constexpr int kInterleavedChunks = 2;

bool contains_batch_norm(const std::vector<model::Layer>& layers) {
  return std::any_of(layers.begin(), layers.end(), [](const model::Layer& layer) {
    const auto inside = model::lists_of(layer);
    return std::holds_alternative<model::BatchNorm>(layer.kind) ||
           std::any_of(inside.begin(), inside.end(),
                       [](const auto* list) { return contains_batch_norm(*list); });
  });
}

// Returns the number for `microbatches = "auto"`: not more than the largest share of the batch has
// samples, because an empty micro-batch is computed as padding. A schedule with chunks needs a
// multiple of the number of stages.
int automatic_micro_batches(const config::Config& config, const parallel::Mesh& mesh,
                            bool interleaved) {
  const int most = kMicroBatchesOfStage * mesh.pipeline;
  if (config.debug.deterministic) return most;
  const int64_t samples = (config.training.global_batch_size + mesh.data - 1) / mesh.data;
  const int count = static_cast<int>(std::clamp<int64_t>(samples, 1, most));
  return interleaved ? std::max(1, count / mesh.pipeline) * mesh.pipeline : count;
}

parallel::ScheduleOptions schedule(const config::Config& config, const parallel::Mesh& mesh) {
  const config::Parallelism& p = config.parallelism;
  parallel::ScheduleOptions s;
  s.ranks = mesh.pipeline;
  s.kind = parallel::schedule_kind(p.pipeline_schedule);
  const bool interleaved = s.kind->chunks;
  if (interleaved) s.chunks = kInterleavedChunks;
  s.micro_batches =
      p.microbatches > 0 ? p.microbatches : automatic_micro_batches(config, mesh, interleaved);
  return s;
}

// Returns the settings of the pipeline, without the partition of the layers into stages.
PipelineParallel pipeline(const config::Config& config, const parallel::Mesh& mesh,
                          const RankOfJob& rank) {
  PipelineParallel p;
  p.only_planned = rank.only_planned;
  if (mesh.pipeline == 1) return p;
  p.schedule = schedule(config, mesh);
  p.stage_memory = rank.least_memory / p.schedule.chunks;
  // Optimizer's state, gradients and parameters, each divided from its ZeRO stage on.
  const double copies[] = {static_cast<double>(optimizer_state(config.optimizer).size()), 1,
                           config.training.mixed() ? 1.5 : 1};
  p.parameter_copies = 0;
  for (int stage = 1; const double number : copies)
    p.parameter_copies +=
        config.parallelism.zero_stage < stage++ ? number : number / mesh.partitions();
  return p;
}

parallel::BatchSplit batch_split(const config::Config& config, const Strategy& strategy) {
  parallel::BatchSplit split;
  split.rank = strategy.place.data;
  split.world_size = strategy.mesh.data;
  if (strategy.mesh.pipeline > 1) split.pipelined = strategy.pipeline.schedule.micro_batches;
  split.micro_batch = config.training.micro_batch_size;
  if (config.debug.deterministic) split.virtual_shards = config.debug.virtual_shards;
  return split;
}

// The copies of parameters in 16 bits lie at half the offsets of the parameters and must be aligned
// as the device asks.
parallel::FlatLayoutOptions bucket_sizes(const config::Config& config,
                                         const parallel::BatchSplit& batch, const RankOfJob& rank) {
  parallel::FlatLayoutOptions buckets;
  buckets.largest_buffer = rank.largest_buffer;
  const uint64_t narrowest = !config.training.mixed() ? 1 : 2;
  buckets.alignment = std::max(rank.alignment * narrowest, kParameterAlignment);
  buckets.world_size = batch.world_size;
  if (batch.world_size == 1 || batch.virtual_shards > 0) return buckets;
  buckets.bucket_bytes = static_cast<uint64_t>(config.comm.bucket_mb * (1 << 20));
  buckets.first_bucket_bytes = std::min(buckets.bucket_bytes, kFirstBucketBytes);
  if (config.parallelism.zero_stage > 1) buckets.buckets = kZeroBuckets;
  return buckets;
}

}  // namespace

bool has_batch_norm(const model::Model& model) { return contains_batch_norm(model.layers); }

int64_t nominal_rows(const parallel::BatchSplit& batch, int64_t global_batch, int data_rank) {
  parallel::BatchSplit its = batch;
  its.rank = data_rank;
  const auto rows = static_cast<int64_t>(parallel::rows_of_rank(global_batch, its).size());
  return rows / (parallel::micro_steps(global_batch, its) * its.shards_of_rank());
}

StepForm whole_form(const Strategy& strategy, bool batch_norm, Purpose purpose, int64_t rows) {
  StepForm form{purpose, rows};
  if (!form.backward()) return form;
  const parallel::BatchSplit& batch = strategy.batch;
  const bool shards = batch.virtual_shards > 0;
  form.split_batch_norm =
      batch_norm && (shards || (batch.world_size > 1 && strategy.data.sync_batch_norm));
  const int micro_batches = std::max(1, batch.pipelined);
  form.l2_share = 1.0 / (shards ? batch.virtual_shards : batch.world_size * micro_batches);
  return form;
}

// All ranks use the partition into stages that suits the first rank of the data and tensor axes.
// Its tensor-parallel slices and its samples are the largest, and the other ranks wait for it.
Strategy make_strategy(const config::Config& config, const model::Model& model,
                       const TrainingSpec& training, const Precision& precision,
                       const RankOfJob& rank) {
  const config::Parallelism& p = config.parallelism;
  Strategy s;
  if (rank.world_size > 1) s.mesh = mesh_of(p, rank.world_size);
  s.place = s.mesh.place_of(rank.rank);
  s.precision = precision;
  s.pipeline = pipeline(config, s.mesh, rank);
  s.batch = batch_split(config, s);
  s.data = {config.comm.overlap, p.zero_stage, p.sync_batch_norm};
  s.buckets = bucket_sizes(config, s.batch, rank);
  s.recompute_blocks = row_of<bool>("training.recompute", config.training.recompute,
                                    {{"none", false}, {"blocks", true}});
  if (s.mesh.pipeline == 1) return s;
  s.pipeline.stages = rank.stages;
  if (!rank.stages.empty()) return s;
  Strategy first = s;
  first.place = {};
  const StepForm form = whole_form(s, has_batch_norm(model), Purpose::kTraining,
                                   nominal_rows(s.batch, config.training.global_batch_size, 0));
  s.pipeline.stages = build_step({model, training, first, form}).values.pipeline->stages.layers;
  return s;
}

}  // namespace runtime::step
