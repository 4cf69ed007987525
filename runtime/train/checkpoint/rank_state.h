// A rank must save its parameters, optimizer state, loss scaling and running statistics, so that
// training can go on as if it had not been interrupted. They are named slices. The functions are
// called by the thread of the programs.
#ifndef RUNTIME_TRAIN_CHECKPOINT_RANK_STATE_H_
#define RUNTIME_TRAIN_CHECKPOINT_RANK_STATE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/train/checkpoint/assembly.h"
#include "runtime/train/rank/rank_model.h"

namespace runtime::train {

// A slice in device memory. Names are "<group>/<parameter>"; groups are "parameters", "statistics",
// and one for each buffer of optimizer state ("momentum", "adam_m", ...).
struct HeldTensor {
  std::string name;
  rt_dtype dtype = RT_FLOAT32;
  Slice slice;
  std::byte* address = nullptr;  // in the storage of the rank; contiguous
  // Whether this rank writes the slice; otherwise another rank with the same numbers does.
  bool writes = true;
  int writer = -1;  // the place on the data axis of the rank that writes; -1: each has its own

  uint64_t bytes() const;
};

// Who writes what all ranks of the data axis have.
enum class Writers {
  kAll,    // they divide it
  kFirst,  // the first of them, so that the others have little to send to rank 0
};

// Everything that this rank has.
std::vector<HeldTensor> held_tensors(RankModel& model, Writers writers = Writers::kAll);

// The bytes of what a rank writes, the most of all ranks that differ only in their place on the
// data axis. The rank may be planned only.
uint64_t most_written_bytes(RankModel& model);

// Writes to the device what a checkpoint has, whatever mesh has saved it. `state` has what
// wanted_slices() says. Waits for queued steps.
void write_state(RankModel& model, const std::vector<HeldTensor>& held, const Assembly& state);
// Returns what is needed of a checkpoint, in the order of `held`.
std::vector<WantedSlice> wanted_slices(const std::vector<HeldTensor>& held);

}  // namespace runtime::train

#endif  // RUNTIME_TRAIN_CHECKPOINT_RANK_STATE_H_
