// Writes checkpoints while training goes on.
#ifndef RUNTIME_TRAIN_CHECKPOINT_SAVER_H_
#define RUNTIME_TRAIN_CHECKPOINT_SAVER_H_

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/train/checkpoint/files.h"
#include "runtime/train/checkpoint/kept_state.h"
#include "runtime/train/rank/rank_model.h"

namespace runtime::train {

// Input of CheckpointSaver.
struct SaverOptions {
  std::filesystem::path folder;  // of the checkpoints
  Retention keep = {};
  std::string configuration;  // the text of config.toml
  bool finite = false;        // numbers that are not finite are not saved
  OnMain on_main;
  std::function<void(const std::string&)> note;  // prints a line on rank 0, nothing on others
  // metrics.jsonl, whose first SavedState::metrics_bytes bytes are put on the disk before the
  // checkpoint counts; "": none.
  std::string metrics_file = {};
  // The ranks do not share the folder: they send to rank 0 what only they have, and it writes all.
  bool through_rank_0 = false;
};

// How a run can be saved; every rank calls it. Rank 0 makes the folder. Where not all ranks can
// write to it, a note says that rank 0 saves for all of them; if its memory is too small for what
// they would send, the run cannot be saved while it goes on: nullopt, after a warning, which
// kUnsaved in the run's folder keeps.
std::optional<SaverOptions> agree_on_saving(SaverOptions options, RankModel& model);

// One rank's part in saving. Every rank makes the same calls, from the thread of the programs,
// which must outlive this object. The numbers are copied to host memory that is kept (KeptState);
// then each rank writes its file in a thread of its own, its writer, and rank 0 completes the
// checkpoint when the files of all ranks are there. Writers use no collectives: they see each
// other's files. Ranks that do not share the folder (SaverOptions::through_rank_0) send their files
// before save() returns, and rank 0's writer writes them. Equivalent to:
// torch.distributed.checkpoint.async_save.
class CheckpointSaver {
 public:
  CheckpointSaver(RankModel& model, SaverOptions options);
  // Waits until the rank's file is written. A checkpoint that lacks files of other ranks after a
  // few seconds is given up.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Whether this rank's writer is at work. Any thread.
  bool busy() const { return busy_; }
  // Waits until no rank is busy.
  void wait();
  // Begins a checkpoint: returns once the numbers are copied. No rank is busy, as the ranks have
  // agreed or waited for. Notes if the checkpoint before has failed.
  void save(const SavedState& state);
  // Waits for the last checkpoint. Throws DataError on every rank if it failed.
  void finish();
  // The step of the last checkpoint that was begun; -1: none.
  int64_t last_step() const { return last_step_; }

 private:
  bool settle();
  void write(const SavedState& state);
  void gather();
  data::Inspect inspection() const;
  std::vector<SavedFile> write_rank() const;
  void write_of(int rank, std::vector<SavedFile>& files) const;
  void lead(const SavedState& state, std::vector<SavedFile> files) const;
  void tell(const std::vector<SavedFile>& files) const;
  void add_files_of(int rank, std::vector<SavedFile>& files) const;
  std::string name_of(int rank) const;  // for messages
  std::filesystem::path done_file(int rank) const;
  std::filesystem::path failed_file(int rank) const;

  RankModel& model_;
  const SaverOptions options_;
  const int rank_, world_size_;
  std::string attempt_;               // the same on all ranks, another one in each run
  std::filesystem::path temporary_;   // of the checkpoint in progress
  std::filesystem::path checkpoint_;  // its name when it is complete
  KeptState kept_;
  std::string decisions_;
  // On rank 0 with through_rank_0: by rank, what each has sent; `fault`: why it cannot be saved.
  struct Sent {
    std::vector<std::string> fault, decisions, tensors;
  };
  Sent sent_;
  std::string failure_;  // of this rank; written by the thread
  int64_t last_step_ = -1;
  bool settled_ = true;  // the ranks have agreed whether the last checkpoint was saved
  std::atomic<bool> busy_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_SAVER_H_
