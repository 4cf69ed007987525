// One rank's model on one device: steps, evaluation, weights and gradients.
#ifndef RUNTIME_TRAIN_TRAINER_H_
#define RUNTIME_TRAIN_TRAINER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugins/host/device.h"
#include "runtime/config/config.h"
#include "runtime/data/loader.h"
#include "runtime/data/safetensors.h"
#include "runtime/exec/compile.h"
#include "runtime/parallel/batch_split.h"

namespace runtime::train {

class StepPrograms;
struct LossScaling;

struct Evaluation {
  double loss = 0;      // mean over the samples, and the labels of each
  double accuracy = 0;  // classification only
  int64_t samples = 0;
};

// The result of a finished step.
struct StepResult {
  int64_t step = 0;  // from 0
  double loss = 0;
};

// One rank; one thread at a time; several trainers may live in one process. Every rank of a job
// makes the same calls in the same order. Everything throws the errors of runtime/error.h and
// plugins::host::Error.
class Trainer {
 public:
  // Makes parameters with their initial values (or model.init_from's), rank 0's on every rank.
  // `options.collectives` makes it one of several ranks. Programs are made when their batch size
  // comes up. `config` is resolved (see ranks.h).
  Trainer(const config::Config& config, const data::SampleSpec& spec,
          std::shared_ptr<plugins::host::Device> device, const exec::CompileOptions& options);
  ~Trainer();

  // How global batches are cut; loaders of training batches give this rank's part.
  const parallel::BatchSplit& split() const;

  // Queues one optimizer step on this rank's part of a global batch. Allocates nothing after the
  // first step of its batch size, before which the ranks compare their collectives.
  void step(const data::Batch& batch, double learning_rate);
  // Losses of finished steps, in order. `wait`: waits for the oldest unfinished one; nullopt if
  // none is outstanding.
  std::optional<StepResult> next_result(bool wait);

  // With mixed_precision = "f16", after the steps so far, for which it waits; nullopt without.
  std::optional<LossScaling> loss_scaling();

  // Every sample once: the ranks take whole batches of the data set in turn. The same numbers on
  // any number of ranks, and on every rank.
  // The loader is one of validation_loader_options().
  Evaluation evaluate(data::Loader& loader);

  // The model's output in inference mode for the rows of a batch, [rows, ...]; of this rank alone,
  // but with zero_stage 3 every rank calls it at the same time.
  std::vector<double> outputs(const data::Batch& batch);

  // Forward and backward without update: the gradient of every trained parameter over all ranks,
  // PyTorch's names and layouts, and beside them "loss", on one rank "logits", and the running
  // statistics, which the pass updates, as "after.<name>". Dropout draws the masks of `step`,
  // counted from 0; by default of the step that would come next.
  data::TensorFile gradients(const data::Batch& batch, std::optional<int64_t> step = {});

  data::TensorFile weights();
  // Names that match a pattern of `except` keep their values; see check_weights.
  void set_weights(const data::TensorFile& file, const std::string& path,
                   const std::vector<std::string>& except = {});

  // Rank 0's running statistics of batch normalisation to all ranks.
  void share_statistics();
  // The largest of each number over the ranks; waits for all of them.
  std::vector<double> maximum(std::vector<double> values);
  // Throws NumericError naming the first rank whose parameters differ from rank 0's.
  void check_replicas();

  // The program of a full step's last pass (of its only one, without micro-steps).
  exec::Program& program();
  // The collectives of a full step on one communicator, without what it computes, for measuring.
  // Gradients are spoiled.
  void run_collectives(int communicator);
  plugins::host::Stream& stream();
  // Copies the first rows of a full batch to where that program reads them.
  void upload(const data::Batch& batch, double learning_rate);
  exec::CollectiveTimes take_collective_times();
  const std::vector<std::string>& notes() const;
  int64_t steps_done() const;
  // For what is no step(): see asynchronous.h.
  StepPrograms& programs();
  void set_steps_done(int64_t steps);
  int64_t parameter_count() const;
  bool classification() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The loss that `auto` stands for.
std::string resolve_loss(const config::Training& training, const data::SampleSpec& spec);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_TRAINER_H_
