// The training loop.
#ifndef RUNTIME_TRAIN_RUN_H_
#define RUNTIME_TRAIN_RUN_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

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
};

// Trains. Throws NumericError when a loss is not a number (debug.nan = "stop").
RunResult run_training(const config::Config& config, const data::DatasetPair& data,
                       Trainer& trainer, Reporter& reporter, const RunOptions& options);

// Makes the folder of a run (job.dump_folder, or outputs/<config name>/<time>) and writes
// config.toml into it.
std::filesystem::path make_run_folder(const config::Config& config);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_RUN_H_
