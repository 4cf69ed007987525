// Fills batches one after the other, without threads; the loader runs it in a background thread.
#ifndef RUNTIME_DATA_BATCH_MAKER_H_
#define RUNTIME_DATA_BATCH_MAKER_H_

#include <map>
#include <memory>
#include <memory_resource>
#include <utility>
#include <vector>

#include "runtime/data/batch.h"

namespace runtime::data {

// Makes the batches of one rank. An object is used by one thread at a time. The constructor throws
// DataError if data set and options give no batch; everything that it allocates comes from
// `memory`.
class BatchMaker {
 public:
  BatchMaker(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
             std::pmr::memory_resource* memory);

  int64_t batches_per_epoch() const { return batches_; }
  int64_t rows_of_batch(int64_t index) const;  // rows of the global batch
  // Returns a batch with memory for the largest one, so that fill() never allocates.
  Batch make_batch() const;
  // Fills in the next batch in order, or the one that `pick` names. If the data set throws, the
  // next call tries the same batch again.
  void fill(Batch& batch);

 private:
  void fill(Batch& batch, int64_t epoch, int64_t index, int part);
  void read_rows(Batch& batch);  // the samples of samples_
  // The weight of the labels of `count` samples, `order_[first]` and those behind it.
  double weight_of_labels(int64_t first, int64_t count);
  void advance();

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::pmr::memory_resource* memory_;
  int64_t size_;
  int64_t features_;  // numbers in one sample
  int64_t batches_;
  int64_t epoch_;
  int64_t index_ = 0;
  std::pmr::vector<float> scratch_;             // copy of an image during augmentation
  std::pmr::vector<int32_t> labels_of_sample_;  // for label weights
  std::pmr::vector<int64_t> order_;             // sample numbers in the order of one epoch
  std::pmr::vector<int64_t> samples_;           // sample numbers of the rows of a batch
  int64_t order_epoch_ = -1;                    // the epoch that order_ belongs to
  // Positions in the global batch, for each pair of rows of the global batch and work item.
  std::map<std::pair<int64_t, int>, std::vector<int64_t>> parts_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_BATCH_MAKER_H_
