// What one rank trains and how its step is cut: all that is known before anything is compiled.
#ifndef RUNTIME_TRAIN_RANK_RANK_SETUP_H_
#define RUNTIME_TRAIN_RANK_RANK_SETUP_H_

#include <memory>
#include <optional>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/data/dataset.h"
#include "runtime/exec/compile_options.h"
#include "runtime/model/layer.h"
#include "runtime/step/step.h"
#include "runtime/step/strategy.h"

namespace runtime::config {
struct Loss;
}

namespace runtime::train {

// A rank that is only planned: its programs have no memory, and no other rank exists.
struct PlannedRank {
  int rank = 0, world_size = 1;
  // The cut of the pipeline, from the strategy of another rank; empty: it is found again.
  std::vector<parallel::StagedLayer> stages = {};
  uint64_t memory = 0;  // bytes of the device with the least; 0: as the device here
};

// The setup of a rank. It compiles nothing and holds no memory of the device.
struct RankSetup {
  // `of` is resolved (see step/ranks.h). The ranks of a job make their setups together. Throws
  // ConfigurationError or DeviceError if the model, the data and the device do not fit together.
  RankSetup(const config::Config& of, const data::SampleSpec& samples,
            std::shared_ptr<plugins::host::Device> on, const exec::CompileOptions& compile,
            const std::optional<PlannedRank>& plan = std::nullopt);

  config::Config config;
  data::SampleSpec spec;
  std::shared_ptr<plugins::host::Device> device;
  exec::CompileOptions options;
  model::Model model;
  step::TrainingSpec training;
  step::Strategy strategy;  // of this rank
  bool has_batch_norm;
  bool planned;  // see PlannedRank
  // Nothing will be trained, on one rank: there are no gradients, no state of an optimizer and no
  // moving average.
  bool inference = false;

  // The rank and the number of ranks on the data axis.
  int rank() const { return strategy.batch.rank; }
  int world_size() const { return strategy.batch.world_size; }
  rt_dtype dtype() const { return strategy.precision.parameters; }
  exec::Collectives* collectives() const { return options.collectives; }  // nullptr: one rank
  int64_t nominal_rows() const;  // of each micro-batch or virtual shard of a full batch
  // The step form of `rows` rows that are not accumulated.
  step::StepForm whole(step::Purpose purpose, int64_t rows) const;
  // The form whose program has all that this rank holds of the model: the training step of
  // nominal_rows() rows without accumulation; in asynchronous training, where owners update, the
  // micro-step; for inference the evaluation.
  step::StepForm form_with_parameters() const;
  // The maximum over all ranks of each number; waits for all ranks.
  std::vector<double> maximum(std::vector<double> values) const;
};

// The loss function for `training.loss`, with "auto" resolved. Throws ConfigurationError if it does
// not fit the data set.
const config::Loss& resolve_loss(const config::Training& training, const data::SampleSpec& spec);

// Throws ConfigurationError if samples of the data set do not fit the model's input, its outputs,
// the loss or the metrics. It needs no device.
void check_model(const config::Config& config, const data::SampleSpec& spec);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RANK_RANK_SETUP_H_
