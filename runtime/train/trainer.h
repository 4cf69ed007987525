// One rank's model on one device: steps, evaluation, weights and gradients.
#ifndef RUNTIME_TRAIN_TRAINER_H_
#define RUNTIME_TRAIN_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/loader.h"
#include "runtime/data/safetensors.h"
#include "runtime/exec/span_recorder.h"
#include "runtime/parallel/batch_split.h"
#include "runtime/train/metrics/values.h"

namespace runtime::train {

class StepPrograms;
struct LossScaling;

// The result of an evaluation over all ranks. Where no label counts, all numbers are NaN.
struct Evaluation {
  double loss = 0;      // mean over the samples and their labels
  double accuracy = 0;  // classification only
  int64_t samples = 0;
  MetricValues metrics = {};  // those of validation.metrics
  bool counts = true;         // whether a label has counted

  // The value of validation.monitor.
  double monitored(const std::string& monitor) const;
};

// The result of a finished step.
struct StepResult {
  int64_t step = 0;  // from 0
  double loss = 0;
  double weight = 1;  // of the loss in a mean, see loss_mean.h; 0: no label counts
  double scale = 1;   // by which training.max_norm has clipped the gradient
};

// One rank of a job, used by one thread at a time; several trainers may live in one process. Every
// rank makes the same calls in the same order. All functions throw the errors of runtime/error.h
// and plugins::host::Error.
class Trainer {
 public:
  // Gives parameters their initial values (or those of model.init_from). If the programs contain
  // collectives, this is one of several ranks: the constructor waits for the other ranks and takes
  // the values of rank 0. Each program is made when its batch size first occurs.
  explicit Trainer(std::shared_ptr<StepPrograms> programs);
  ~Trainer();

  // How global batches are cut; a loader of training batches gives this rank its rows.
  const parallel::BatchSplit& split() const;

  // Queues one optimizer step on this rank's rows of a global batch. Allocates nothing after the
  // first step of its batch size, before which the ranks compare their collectives.
  void step(const data::Batch& batch, double learning_rate);
  // Records what steps do from now on; nullptr: no longer. Evaluations are not recorded.
  void record(exec::SpanRecorder* spans);
  // The losses of finished steps, in order. `wait` blocks until the oldest queued step is finished.
  // nullopt if no step is queued, or (without `wait`) finished.
  std::optional<StepResult> next_result(bool wait);

  // Throws the error of a failed step whose result next_result() would give all the same, because
  // events of an older plugin report no errors; waits for queued steps then. Does nothing on other
  // devices.
  void confirm_results();

  // With mixed_precision = "f16" the loss scaling after the steps so far, for which it waits;
  // otherwise nullopt.
  std::optional<LossScaling> loss_scaling();

  // Whether the run keeps a moving average of the weights.
  bool has_average() const;
  // The moving average with the running statistics, as weights().
  data::TensorFile average();

  // Evaluates the moving average if there is one, else the weights, on every sample once: the ranks
  // take whole batches of the data set in turn. The result, with validation.metrics, is the same on
  // every rank, and for any number of ranks. `loader` is made with validation_loader_options();
  // `begins` is called with the index of each batch that this rank takes and the number of all.
  using BatchBegins = std::function<void(int64_t batch, int64_t batches)>;
  Evaluation evaluate(data::Loader& loader, const BatchBegins& begins = {});

  // The model's output in inference mode for the rows of a batch, [rows, ...]. Runs on this rank
  // alone, but with zero_stage 3 every rank must call it at the same time.
  std::vector<double> outputs(const data::Batch& batch);

  // Forward and backward without update. Returns the gradient of every trained parameter over all
  // ranks, with PyTorch's names and layouts; also "loss", on one rank "logits", and as
  // "after.<name>" the running statistics, which the pass updates. Dropout draws the masks of step
  // `step` (from 0); by default those of the next step.
  data::TensorFile gradients(const data::Batch& batch, std::optional<int64_t> step = {});

  // The whole parameters of all ranks with PyTorch's names and layouts. Waits for queued steps.
  // Equivalent to: state_dict().
  data::TensorFile weights();
  // Names that match a pattern in `except` keep their values; see check_weights.
  void set_weights(const data::TensorFile& file, const std::string& path,
                   const std::vector<std::string>& except = {});

  // Copies rank 0's running statistics of batch normalisation to all ranks.
  void share_statistics();
  // Throws NumericError, which names the first rank whose parameters differ from the first
  // replica's.
  void check_replicas();

  int64_t steps_done() const;
  // Continues after so many steps that were not made by step(): those of asynchronous/run.h, or
  // those before a checkpoint.
  void set_steps_done(int64_t steps);

 private:
  // Evaluates what is in the place of the weights.
  Evaluation evaluate_present(data::Loader& loader, const BatchBegins& begins);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_TRAINER_H_
