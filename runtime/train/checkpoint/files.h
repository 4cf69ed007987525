// The files of a checkpoint as each rank gets them: tensors from the folder itself, or from rank 0
// where other ranks do not see that folder; all else from rank 0.
#ifndef RUNTIME_TRAIN_CHECKPOINT_FILES_H_
#define RUNTIME_TRAIN_CHECKPOINT_FILES_H_

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/safetensors.h"
#include "runtime/data/safetensors_header.h"
#include "runtime/exec/collectives.h"
#include "runtime/train/checkpoint/folder.h"

namespace runtime::train {

// Runs work on rank 0 while the other ranks wait, see launch::Rank::on_main.
using OnMain = std::function<void(const char* what, const std::function<void()>& work)>;

// The files of one checkpoint. If it was opened by all ranks, every rank makes the same calls in
// the same order, from the thread of its collectives, and all of them throw the same DataError if
// rank 0 cannot read.
class CheckpointFiles {
 public:
  // Without `collectives`, for one rank by itself, which reads the folder. Otherwise every rank
  // calls it, and rank 0 has checked its files (verify_checkpoint). A rank that sees a copy of them
  // checks that; if it is damaged, or a rank sees another manifest or lacks a file, rank 0 reads
  // for all. Throws DataError.
  explicit CheckpointFiles(std::filesystem::path folder, exec::Collectives* collectives = nullptr,
                           OnMain on_main = nullptr);

  const std::filesystem::path& path() const { return folder_; }
  // The ranks that have opened it; nullptr: one rank by itself.
  exec::Collectives* collectives() const { return collectives_; }
  // Whether rank 0 reads also the tensors for all.
  bool through_rank_0() const { return through_rank_0_; }

  // These functions return the bytes of a file and of several ones, the tensors of a file, and the
  // manifest. Throw DataError.
  std::string text(const std::string& name) const { return texts({name})[0]; }
  std::vector<std::string> texts(const std::vector<std::string>& names) const;
  data::TensorFile tensors(const std::string& name) const;
  Manifest manifest() const;
  // Throws a DataError on every rank if `fault` of one of them is not empty.
  void agree(const std::string& fault) const;
  // The checked headers of files with tensors, of which the manifest says how long they are.
  std::vector<data::TensorHeader> headers(const std::vector<SavedFile>& files) const;

 private:
  // Rank 0 calls `read` for each number below `count`; every rank gets what it has returned.
  std::vector<std::string> of_rank_0(size_t count,
                                     const std::function<std::string(size_t)>& read) const;

  std::filesystem::path folder_;
  exec::Collectives* collectives_ = nullptr;
  bool through_rank_0_ = false;
  OnMain on_main_;
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_FILES_H_
