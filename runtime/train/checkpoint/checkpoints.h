// The checkpoints of one run: when one is due, what is in it, and how a run goes on from one.
#ifndef RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTS_H_
#define RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTS_H_

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "runtime/config/config.h"
#include "runtime/data/dataset.h"
#include "runtime/train/checkpoint/saver.h"
#include "runtime/train/rank/rank_model.h"

namespace runtime::train {

// A checkpoint that a run goes on from, as every rank reads it.
struct Resumed {
  CheckpointFiles files;
  Manifest manifest;
  const std::filesystem::path& path() const { return files.path(); }
};

// Reads the manifest; see CheckpointFiles for the arguments. Throws DataError. If all ranks have
// opened it together, every rank makes the same calls of the functions below, too.
Resumed open_checkpoint(const std::filesystem::path& path, exec::Collectives* collectives = nullptr,
                        OnMain on_main = nullptr);

// Throws DataError on every rank if another rank sees a newer checkpoint in the folder than rank 0,
// from which the run would go on. Every rank calls it; nullptr: one rank.
void check_newest(const std::filesystem::path& folder, exec::Collectives* collectives);

// Both functions take over what was decided in the run that was saved, as far as it fits this
// number of ranks. `rank` is that of the job.
exec::CompileOptions with_decisions(exec::CompileOptions options, const Resumed& from, int rank);
void take_decisions(RankSetup& setup, const Resumed& from);

// Compares the configuration of the checkpoint and the data with those of this run. Throws
// DataError that lists what must be the same and is not. Returns the lines that differ otherwise,
// for the log.
std::vector<std::string> check_resumable(const Resumed& from, const config::Config& config,
                                         const data::Dataset& dataset);

// Gives the rank the state of the checkpoint. Every rank calls it. The trainer goes on after
// `from.manifest.state.step` steps. Throws DataError.
void restore(const Resumed& from, RankModel& model);

// Writes the optimizer state of the range that this rank owns, see RankModel::owned_state(),
// from the checkpoint. Throws DataError.
void restore_owned(const Resumed& from, RankModel& model);

// Gives the rank the parameters and running statistics of the checkpoint that `best` was
// measured on, from the first of the folders that has it; if none has, those of the best checkpoint
// in all of them. Every rank calls it. Returns the step of
// the checkpoint, or nullopt if there is none. Throws DataError.
std::optional<int64_t> restore_best(const std::vector<std::filesystem::path>& folders,
                                    const BestValidation& best, const SaverOptions& options,
                                    RankModel& model);

// Saves the checkpoints of a run. Every rank makes the same calls; used by the thread of the
// trainer, which must outlive it.
class Checkpoints {
 public:
  Checkpoints(const config::Config& config, RankModel& model, const data::Dataset& dataset,
              int64_t steps_per_epoch, SaverOptions options, const Resumed* from);

  // Whether the state after so many steps is in a checkpoint, or being saved.
  bool has(int64_t step) const;
  // Whether a checkpoint is due after so many steps, or was put off; by time only if
  // `minutes_passed`, which the ranks have agreed on.
  bool due(int64_t step, bool minutes_passed) const;
  // Whether the number of steps, or a validation, makes one due that was not put off yet: the ranks
  // ask each other now whether one of them is busy.
  bool newly_due(int64_t step) const { return !put_off_ && due(step, false); }
  // Whether this rank still writes the checkpoint before.
  bool busy() const { return saver_.busy(); }
  // Saves after a later step, because a rank is busy, as all ranks know; a note says so once.
  // Returns false if the checkpoint cannot be put off: it is that of one of the best validations.
  bool put_off(int64_t step);
  bool is_put_off() const { return put_off_; }
  // Waits until no rank is busy.
  void wait() { saver_.wait(); }
  // The first step after `step` whose number makes a checkpoint due.
  int64_t next_due(int64_t step) const;
  // Whether interval_minutes have passed on this rank since the last checkpoint.
  bool minutes_passed() const;
  // Takes the value of validation.monitor after a step.
  void validated(int64_t step, double value);
  // Begins to save; no rank is busy. `state` has the step, the sums of the log and the length of
  // metrics.jsonl; the rest is filled in.
  void save(SavedState state);
  // Waits for the last checkpoint. Throws DataError on every rank if it failed.
  void finish() { saver_.finish(); }

 private:
  const config::Checkpoint& config_;
  const std::string monitor_;
  RankModel& model_;
  const int64_t steps_per_epoch_;
  const std::string data_;
  const std::function<void(const std::string&)> note_;
  CheckpointSaver saver_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  int64_t resumed_step_ = -1;
  std::pair<int64_t, double> monitored_ = {-1, 0};  // step and value of the last validation
  std::vector<double> best_;                        // ascending; accuracies are negated
  bool among_best_ = false;
  bool put_off_ = false;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTS_H_
