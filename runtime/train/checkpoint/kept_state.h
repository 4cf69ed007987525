// The copy of a rank's state that a checkpoint is written from while training goes on.
#ifndef RUNTIME_TRAIN_CHECKPOINT_KEPT_STATE_H_
#define RUNTIME_TRAIN_CHECKPOINT_KEPT_STATE_H_

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "runtime/data/safetensors.h"
#include "runtime/train/checkpoint/rank_state.h"

namespace runtime::train {

// KeptState holds what a rank writes, in memory of the host that stays from one checkpoint to the
// next. The memory is pinned, so that a device copies into it by itself, and has the tensors in the
// order of their file from a page on, so that the file is written from there. A thread of its own
// allocates it and touches its pages, beginning when the object is made: neither the first step nor
// the first checkpoint waits for the system, unless that checkpoint is due at once. If the device
// has no such memory left, or no buffer as large as that, it is ordinary memory. The programs,
// whose thread makes the calls, must outlive the object.
class KeptState {
 public:
  explicit KeptState(RankModel& model, Writers writers = Writers::kAll);

  // Copies the state behind all queued steps, and waits for the copy.
  void take();
  // The tensors that were taken last, with the metadata of their file: slices that are not whole
  // tensors are described. Any thread may read it while take() does not run.
  const data::FileView& file() const { return file_; }

 private:
  RankModel& model_;
  std::vector<HeldTensor> written_;
  data::FileView file_;
  std::unique_ptr<std::byte[]> ordinary_;  // the memory, if it is not pinned
  plugins::host::Memory pinned_;
  std::future<std::byte*> begin_;  // of the tensors; taken by the first take()
};

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_KEPT_STATE_H_
