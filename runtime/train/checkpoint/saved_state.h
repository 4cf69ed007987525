// This header has what a checkpoint says of the job as a whole, beside the tensors of the ranks.
#ifndef RUNTIME_TRAIN_CHECKPOINT_SAVED_STATE_H_
#define RUNTIME_TRAIN_CHECKPOINT_SAVED_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/parallel/mesh.h"
#include "runtime/parallel/stages.h"
#include "runtime/train/loss_mean.h"
#include "runtime/train/progress.h"

namespace runtime::train {

// These sums belong to the next line of metrics, which is not written yet.
struct LogSums {
  LossMean loss = {};
  int64_t samples = 0;
};

// SavedState says where a run was when it was saved. From the step follow the epoch, the batch, the
// learning rate and all random numbers.
struct SavedState {
  int64_t step = 0;  // steps done
  int64_t steps_per_epoch = 1;
  parallel::Mesh mesh = {};
  // Samples of the ranks of the data axis in relation to each other; empty: equal.
  std::vector<double> speeds = {};
  std::vector<parallel::StagedLayer> stages = {};  // the cut of the pipeline
  LogSums log = {};
  uint64_t metrics_bytes = 0;            // of metrics.jsonl
  int64_t validated = 0;                 // step of the last validation
  std::string monitor = "loss";          // validation.monitor, which the next values belong to
  std::optional<double> monitored = {};  // validation.monitor, if it was measured after this step
  std::vector<double> best = {};         // the best values of validation.monitor so far
  std::optional<BestValidation> best_validation = {};  // of the validations of the whole run
  ProgressState plateau = {}, early_stopping = {};
  bool listed_order = false;  // see data::EpochOrder
  std::string data;           // fingerprint of the training data
  std::string preparation;    // of the data, see data/preparation.h; "": an older program saved it
  std::string environment;    // device, threads and build; other ones round in another way
  std::string created;        // time as in ISO 8601

  int64_t epoch() const { return step / steps_per_epoch; }
};

// These functions write a state as a JSON object and read it; any thread may call them.
// parse_saved_state() throws DataError, which begins with `where`.
std::string to_json(const SavedState& state);
SavedState parse_saved_state(const std::string& json, const std::string& where);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_SAVED_STATE_H_
