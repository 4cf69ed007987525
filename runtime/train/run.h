// The training loop.
#ifndef RUNTIME_TRAIN_RUN_H_
#define RUNTIME_TRAIN_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "runtime/config/config.h"
#include "runtime/data/open.h"
#include "runtime/train/reporter.h"
#include "runtime/train/scaling.h"
#include "runtime/train/trainer.h"

namespace runtime::train {

struct RunOptions {
  std::optional<int64_t> max_steps;  // stops earlier than the configuration says
  // Asked after every step; not 0: the signal that ends the run, of all ranks after the same step.
  std::function<int()> stop;
};

struct RunResult {
  int64_t steps = 0;
  double last_loss = 0;
  std::optional<Evaluation> validation;  // the last one
  StepCost cost;                         // without warm-up and validation
  int signal = 0;                        // that stopped it, 0 if it ran to its end
  // Not "": a validation loss that is not finite has ended the run (debug.nan = "stop"), on every
  // rank; the parameters may be good, and the caller can save them before it throws this.
  std::string numeric_error;
};

// Trains. Throws NumericError when the loss of a step is not finite (debug.nan = "stop").
RunResult run_training(const config::Config& config, const data::DatasetPair& data,
                       Trainer& trainer, Reporter& reporter, const RunOptions& options);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_H_
