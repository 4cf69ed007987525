// The training loop.
#ifndef RUNTIME_TRAIN_RUN_LOOP_H_
#define RUNTIME_TRAIN_RUN_LOOP_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "runtime/config/config.h"
#include "runtime/data/open.h"
#include "runtime/train/checkpoint/checkpoints.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/reporter.h"
#include "runtime/train/run/result.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

// Input of run_training().
struct RunOptions {
  std::optional<int64_t> max_steps;  // ends the run earlier than the configuration says
  // Called after every step. A result other than 0 is the signal that ends the run; all ranks then
  // stop after the same step.
  std::function<int()> stop;
  // Called like `stop`. Once it has returned true on a rank, the run ends as by SIGUSR1 after its
  // next periodic checkpoint. Null: never.
  std::function<bool()> stop_after_checkpoint;
  // Where the run is saved and with what; without a folder it is not.
  SaverOptions checkpoints = {};
  const Resumed* resumed = nullptr;         // what the run goes on from; restore() has been called
  std::function<uint64_t()> metrics_bytes;  // the present length of metrics.jsonl; null: none
};

// Trains. Throws NumericError if the loss of a step is not finite (debug.nan = "stop").
// `programs` are those of the trainer.
RunResult run_training(const config::Config& config, const data::DatasetPair& data,
                       StepPrograms& programs, Trainer& trainer, Reporter& reporter,
                       const RunOptions& options);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_LOOP_H_
