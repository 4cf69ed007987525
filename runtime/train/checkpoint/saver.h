// Writes checkpoints while training goes on.
#ifndef RUNTIME_TRAIN_CHECKPOINT_SAVER_H_
#define RUNTIME_TRAIN_CHECKPOINT_SAVER_H_

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "runtime/data/safetensors.h"
#include "runtime/train/checkpoint/folder.h"
#include "runtime/train/step_programs.h"

namespace runtime::train {

// Runs work on rank 0 while the other ranks wait, see launch::Rank::on_main.
using OnMain = std::function<void(const char* what, const std::function<void()>& work)>;

// Input of CheckpointSaver.
struct SaverOptions {
  std::filesystem::path folder;  // of the checkpoints; a file system that all ranks share
  Retention keep = {};
  std::string configuration;  // the text of config.toml
  bool finite = false;        // numbers that are not finite are not saved
  OnMain on_main;
  std::function<void(const std::string&)> note;  // prints a line on rank 0, nothing on others
  // metrics.jsonl, whose first SavedState::metrics_bytes bytes are put on the disk before the
  // checkpoint counts; "": none.
  std::string metrics_file = {};
};

// Whether every rank can write to the same folder, which rank 0 makes. Every rank calls it. True if
// rank 0 cannot make it: saving then says why.
bool all_see(const std::filesystem::path& folder, const StepPrograms& programs,
             const OnMain& on_main);

// One rank's part in saving. Every rank makes the same calls, from the thread of the programs,
// which must outlive this object. The numbers are copied to host memory first; then each rank
// writes its file in a thread of its own, and rank 0 completes the checkpoint when the files of all
// ranks are there. These threads use no collectives: they see each other's files. Equivalent to:
// torch.distributed.checkpoint.async_save.
class CheckpointSaver {
 public:
  CheckpointSaver(StepPrograms& programs, SaverOptions options);
  // Waits until the rank's file is written. A checkpoint that lacks files of other ranks after a
  // few seconds is given up.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Begins a checkpoint. Waits for the one before, and notes if that one failed.
  void save(const SavedState& state);
  // Waits for the last checkpoint. Throws DataError on every rank if it failed.
  void finish();
  // The step of the last checkpoint that was begun; -1: none.
  int64_t last_step() const { return last_step_; }

 private:
  bool wait();
  void write(const SavedState& state);
  std::vector<SavedFile> write_rank() const;
  void lead(const SavedState& state, std::vector<SavedFile> files) const;
  void tell(const std::vector<SavedFile>& files) const;
  void add_files_of(int rank, std::vector<SavedFile>& files) const;
  std::filesystem::path done_file(int rank) const;
  std::filesystem::path failed_file(int rank) const;

  StepPrograms& programs_;
  const SaverOptions options_;
  const int rank_, world_size_;
  std::string attempt_;               // the same on all ranks, another one in each run
  std::filesystem::path temporary_;   // of the checkpoint in progress
  std::filesystem::path checkpoint_;  // its name when it is complete
  data::TensorFile state_;            // kept, so that saving again allocates nothing
  std::string decisions_;
  std::string failure_;  // of this rank; written by the thread
  int64_t last_step_ = -1;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_SAVER_H_
