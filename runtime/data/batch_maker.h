// Makes batches without threads of its own: says which samples a batch has, and reads them.
#ifndef RUNTIME_DATA_BATCH_MAKER_H_
#define RUNTIME_DATA_BATCH_MAKER_H_

#include <map>
#include <memory>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/order.h"

namespace runtime::data {

// Makes the batches of one rank. One thread at a time may call plan(); any number of threads may
// call read() meanwhile. The constructor throws DataError if data set and options give no batch;
// everything that it allocates comes from `memory`.
class BatchMaker {
 public:
  // The copy of an image during augmentation; empty if images are not changed.
  using Scratch = std::pmr::vector<float>;

  BatchMaker(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
             std::pmr::memory_resource* memory);

  int64_t batches_per_epoch() const { return batches_; }
  int64_t rows_of_batch(int64_t index) const;  // rows of the global batch
  // Returns a batch with memory for the largest one, so that plan() and read() never allocate.
  Batch make_batch() const;
  // Returns room for what read() computes on the way; each thread needs its own.
  Scratch make_scratch() const;
  // Fills in everything but features, labels and targets, of the next batch in order or of the one
  // that `pick` names. If the data set throws, the next call tries the same batch again.
  void plan(Batch& batch);
  // Reads the samples of rows begin..end-1 of a planned batch. The result does not depend on how
  // the rows are divided among calls. Throws what the data set throws.
  void read(Batch& batch, int64_t begin, int64_t end, Scratch& scratch) const;

 private:
  void plan(Batch& batch, int64_t epoch, int64_t index, int part);
  // The weight of the labels of `count` samples of the present epoch, `order_[first]` and those
  // behind it.
  double weight_of_labels(int64_t first, int64_t count, int64_t epoch);
  void mask(int64_t epoch, std::span<const int64_t> samples, float* features, float* hidden) const;
  void check_given(std::span<const float> weights, int64_t sample) const;
  void advance();

  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  std::pmr::memory_resource* memory_;
  int64_t size_;
  int64_t features_;  // numbers in one sample
  int64_t batches_;
  int64_t epoch_;
  int64_t index_ = 0;
  EpochOrder order_;
  Batch sample_;            // the labels and weights of one sample, see weight_of_labels()
  LabelWeighing weighing_;  // of sample_
  // Positions in the global batch, for each pair of rows of the global batch and work item.
  std::map<std::pair<int64_t, int>, std::vector<int64_t>> parts_;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_BATCH_MAKER_H_
