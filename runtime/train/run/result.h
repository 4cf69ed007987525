// A training run ends with this result.
#ifndef RUNTIME_TRAIN_RUN_RESULT_H_
#define RUNTIME_TRAIN_RUN_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/train/cost_meter.h"
#include "runtime/train/profiler.h"
#include "runtime/train/progress.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

// What run_training() returns.
struct RunResult {
  int64_t steps = 0;
  double last_loss = 0;
  std::optional<Evaluation> validation;  // the last one
  StepCost cost;                         // without warm-up and validation
  Recording recording;                   // with profiling.enabled; it names programs of the run
  int signal = 0;                        // the signal that stopped the run; 0: it ran to its end
  // Not "": a validation loss that is not finite has ended the run on every rank (debug.nan =
  // "stop"). The parameters may still be good, so the caller can save them before it throws this as
  // an error.
  std::string numeric_error;
  // Not "": the checkpoint at the end could not be saved. The caller saves the weights before it
  // throws this as an error.
  std::string checkpoint_error;
  bool stopped_early = false;  // by [early_stopping]
  // The step whose weights early_stopping.restore_best has given the model; empty: it keeps those
  // of the last step.
  std::optional<int64_t> restored_step;
  // What the whole run took on this rank, validations and checkpoints included.
  double seconds = 0;
  // The whole epochs of this run, and the mean time of one, its validation included.
  int64_t epochs = 0;
  double epoch_seconds = 0;
  // The best validation of the run by validation.monitor, also of the part before a checkpoint that
  // it went on from; empty: no validation had a number.
  std::optional<BestValidation> best;
  // Not 0: what was validated up to this step is not known, because the checkpoint says nothing of
  // it, or of another monitor.
  int64_t best_after = 0;
  int64_t validated = 0;                      // the step of `validation`
  std::optional<double> validation_accuracy;  // of `validation`, in a classification
  // The mean training loss of the steps from `unfinished_after` (not included) to `steps`, if the
  // run has ended inside an epoch.
  std::optional<double> unfinished_loss;
  int64_t unfinished_after = 0;
  std::optional<double> joules;  // that the device of this rank has drawn, see DeviceMeter
  // The mean rates over the steps of `cost`, as in Metrics; empty: not a language model, or the
  // peak is not known.
  std::optional<double> tokens_per_second, mfu;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_RESULT_H_
