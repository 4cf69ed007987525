// Fills batches one after the other, without threads; the loader runs it in the background.
#ifndef RUNTIME_DATA_BATCH_MAKER_H_
#define RUNTIME_DATA_BATCH_MAKER_H_

#include <map>
#include <memory>
#include <memory_resource>
#include <utility>
#include <vector>

#include "runtime/data/loader.h"

namespace runtime::data {

// Used by one thread at a time. Throws DataError when data set and options give no batch.
class BatchMaker {
 public:
  BatchMaker(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
             std::pmr::memory_resource* memory);

  int64_t batches_per_epoch() const { return batches_; }
  int64_t rows_of_batch(int64_t index) const;  // of the global batch
  // A batch with memory for the largest one, so that fill() never allocates.
  Batch make_batch() const;
  // The next batch in order, or what was picked; when the data set throws, the next in order is
  // tried again.
  void fill(Batch& batch);

 private:
  void fill(Batch& batch, int64_t epoch, int64_t index, int part);
  void read_row(Batch& batch, int64_t row, int64_t sample);
  void advance();

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::pmr::memory_resource* memory_;
  int64_t size_;
  int64_t features_;  // numbers per sample
  int64_t batches_;
  int64_t epoch_;
  int64_t index_ = 0;
  std::pmr::vector<float> scratch_;  // of augmentation
  std::pmr::vector<int64_t> order_;
  int64_t order_epoch_ = -1;  // whose order that is
  // By rows of the global batch and part.
  std::map<std::pair<int64_t, int>, std::vector<int64_t>> parts_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_BATCH_MAKER_H_
