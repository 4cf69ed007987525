// Makes the strategy of a rank from the configuration.
#ifndef RUNTIME_STEP_MAKE_STRATEGY_H_
#define RUNTIME_STEP_MAKE_STRATEGY_H_

#include "runtime/config/config.h"
#include "runtime/model/layer.h"
#include "runtime/step/step.h"
#include "runtime/step/strategy.h"

namespace runtime::step {

// The least alignment of a parameter, in bytes. It suffices for CPUs and GPUs, also for copies in
// 16 bits at half the offsets, so that all have the same flat buffers, which `runtime verify`
// compares.
constexpr uint64_t kParameterAlignment = 512;

// The rank that a strategy is for, and what is known of the others.
struct RankOfJob {
  int rank = 0, world_size = 1;
  uint64_t least_memory = 0;  // bytes of the device that has the fewest; 0: unknown
  // The alignment, in bytes, of the device that asks for the largest one; a power of two.
  // Parameters are aligned to it, or to twice as much if they have copies in 16 bits, and to
  // kParameterAlignment.
  uint64_t alignment = 1;
  // Bytes of a buffer of the device whose largest buffer is the smallest.
  uint64_t largest_buffer = UINT64_MAX;
  bool only_planned = false;  // no rank exists, see PipelineParallel::only_planned
  // The cut that make_strategy() has made for another rank of the job; empty: it is made again.
  std::vector<parallel::StagedLayer> stages = {};
};

// `config` is resolved (see ranks.h). With a pipeline the cut into stages is that of rank 0's
// training step, which is built for it. Throws ConfigurationError if the configuration fits neither
// the mesh nor the model.
Strategy make_strategy(const config::Config& config, const model::Model& model,
                       const TrainingSpec& training, const Precision& precision,
                       const RankOfJob& rank);

// The rows of each micro-batch or virtual shard of a full global batch, of the rank with index
// `data_rank` on the data axis.
int64_t nominal_rows(const parallel::BatchSplit& batch, int64_t global_batch, int data_rank);

// Whether a layer of the model, at any depth, is a batch normalisation.
bool has_batch_norm(const model::Model& model);

// The form of a step of `rows` rows that are not accumulated. `batch_norm`: has_batch_norm() of the
// model.
StepForm whole_form(const Strategy& strategy, bool batch_norm, Purpose purpose, int64_t rows);

}  // namespace runtime::step

#endif  // RUNTIME_STEP_MAKE_STRATEGY_H_
