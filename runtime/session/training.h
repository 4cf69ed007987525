// A training run on one rank, with its files and the signals that end it.
#ifndef RUNTIME_SESSION_TRAINING_H_
#define RUNTIME_SESSION_TRAINING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/config/config.h"
#include "runtime/session/session.h"
#include "runtime/train/run/run_folder.h"
#include "runtime/train/run/stop_signal.h"

namespace runtime::session {

// What the ranks of a process share in a training run.
struct Training {
  config::Config config;  // as it is saved
  int64_t max_steps = 0;  // the steps after which training stops; 0: as the configuration says
  // Made before any thread, in a process that computes.
  std::optional<train::StopSignal> stop = {};
  std::optional<train::RunFolder> folder = {};  // in the process of rank 0
  std::string choice = {};                      // the mesh that was chosen, as text
};

// Trains, saves the weights (and their average) in the folder of the run, and says at the end what
// was done. All ranks must call it. Returns the exit code: 0, or 128 + the signal that has ended
// training. Throws what training throws, NumericError if weights are not finite, and DataError if
// they or a checkpoint could not be saved.
int train_on_rank(Session& session, Training& training);

}  // namespace runtime::session

#endif  // RUNTIME_SESSION_TRAINING_H_
