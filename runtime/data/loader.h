// Batches of a data set: order, prefetch, the last batch.
#ifndef RUNTIME_DATA_LOADER_H_
#define RUNTIME_DATA_LOADER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/augment.h"
#include "runtime/data/dataset.h"

namespace runtime::data {

enum class LastBatch {
  kDrop,  // an incomplete batch is left out
  kPad,   // filled up with samples of weight 0
  kKeep,  // smaller
};

// A rank's part of a global batch, on the host. Padding rows repeat the last real sample of the
// global batch; their position is -1.
struct Batch {
  int64_t rows = 0;
  int64_t valid = 0;                          // rows that are no padding
  int64_t global_rows = 0, global_valid = 0;  // the same of the global batch
  int64_t epoch = 0;                          // from 0
  int64_t index = 0;                          // of the batch within the epoch
  int part = 0;                               // where parts are picked: which one
  std::pmr::vector<int64_t> positions;        // [rows], of each row in the global batch
  std::pmr::vector<float> features;           // [rows, shape...]
  std::pmr::vector<int32_t> labels;           // [rows, labels], classification
  std::pmr::vector<float> targets;            // [rows, targets], regression
};

// A whole batch of zeros, which are valid as token ids and labels.
Batch zero_batch(const SampleSpec& spec, int64_t rows);

// A part of a global batch.
struct Pick {
  int64_t batch = 0;  // from the first batch of the first epoch on
  int part = 0;
};

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = true;
  uint64_t seed = 0;
  LastBatch last_batch = LastBatch::kKeep;
  int prefetch = 2;                // batches prepared ahead in a background thread; 0: in next()
  Augmentation augmentation = {};  // of images
  int64_t first_epoch = 0;
  // Of the batches of an epoch, those with these indices only: first, first + stride, ... A rank
  // beyond the last batch loads one that nobody asks for.
  int64_t first_batch = 0, batch_stride = 1;
  // The rows of a part (without `pick`: the rank's own, 0) of a global batch of so many rows, by
  // position in it; -1 is padding. Empty: all rows. The answer depends on the arguments only.
  std::function<std::vector<int64_t>(int64_t global_rows, int part)> part = nullptr;
  // What to load next, in place of one batch after the other: one of `parts` parts, or nothing,
  // which becomes a batch of 0 rows. Called by the thread that loads; may wait.
  std::function<std::optional<Pick>()> pick = nullptr;
  int parts = 1;
};

// Fills `order` with the permutation of 0..order.size()-1 of an epoch, which depends on seed and
// epoch only (Philox-keyed Fisher-Yates); allocates nothing.
void fill_epoch_order(std::span<int64_t> order, bool shuffle, uint64_t seed, int64_t epoch);

// Endless: after the last batch of an epoch comes the first of the next. next() from one thread;
// the destructor joins the background thread. An exception of the data set is rethrown by next().
class Loader {
 public:
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
         std::pmr::memory_resource* memory = std::pmr::get_default_resource());
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t batches_per_epoch() const;
  int64_t rows_of_batch(int64_t index) const;  // of the global batch: full, and the last

  // The next batch; valid until the following call (its memory is used again, so that a step
  // allocates nothing).
  const Batch& next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_LOADER_H_
