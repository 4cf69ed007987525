// These functions of the command predict serve models for texts as well as all others.
#ifndef RUNTIME_CLI_PREDICT_H_
#define RUNTIME_CLI_PREDICT_H_

#include <memory>
#include <string>

#include "runtime/cli/commands.h"
#include "runtime/data/dataset.h"
#include "runtime/launch/job.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/trainer.h"

namespace runtime::cli {

// A model with its weights, ready to compute.
struct Opened {
  std::shared_ptr<train::StepPrograms> programs;
  std::unique_ptr<train::Trainer> trainer;
};
// Opens the device of the rank; the weights of the model are those of model.init_from.
Opened open_model(const launch::Rank& rank, const config::Config& config,
                  const data::SampleSpec& spec);

// RUNTIME_DATA_PATH; null if it is not set.
const char* data_search_path();

// Prints a text that a language model continues, as it comes.
void write_text(const launch::Rank& rank, const PredictArguments& arguments);
// Prints a text with its masks filled in by the most likely tokens, and the next likely ones.
void fill_masks(const launch::Rank& rank, const PredictArguments& arguments);

}  // namespace runtime::cli

#endif  // RUNTIME_CLI_PREDICT_H_
