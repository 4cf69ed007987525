// A batch of samples, and how batches are made.
#ifndef RUNTIME_DATA_BATCH_H_
#define RUNTIME_DATA_BATCH_H_

#include <cstdint>
#include <functional>
#include <memory_resource>
#include <optional>
#include <vector>

#include "runtime/data/augment.h"
#include "runtime/data/dataset.h"

namespace runtime::data {

// Says what happens with the last batch of an epoch if samples are left over.
enum class LastBatch {
  kDrop,  // it is left out
  kPad,   // it is filled up with samples of weight 0
  kKeep,  // it is smaller
};

// The numbers of an input of all rows, [rows, shape...]; the array of the other type is empty.
struct InputNumbers {
  std::pmr::vector<float> floats;
  std::pmr::vector<int32_t> integers;
};

// The rows of a global batch that one rank computes, in host memory. Padding rows repeat the last
// real sample of the global batch; their position is -1.
struct Batch {
  int64_t rows = 0;
  int64_t valid = 0;                          // rows that are not padding
  int64_t global_rows = 0, global_valid = 0;  // rows and valid of the global batch
  // The sum of the weights of all labels of the global batch, divided by the labels of a sample; as
  // many as there are samples where labels have no weights.
  std::optional<double> weight = {};
  int64_t epoch = 0;                    // from 0
  int64_t index = 0;                    // number of the batch in its epoch
  int part = 0;                         // work item of the global batch, see Pick
  std::pmr::vector<int64_t> positions;  // [rows]: position of each row in the global batch
  std::pmr::vector<int64_t> samples;    // [rows]: number of each row's sample in the data set
  std::pmr::vector<float> features;     // [rows, shape...]
  std::pmr::vector<int32_t> labels;     // [rows, labels], for classification
  std::pmr::vector<float> targets;      // [rows, targets], for regression
  std::pmr::vector<InputNumbers> inputs = {};  // as SampleSpec::inputs
};

// The weights of labels and targets in the mean loss: by class, and by sample.
struct LabelWeights {
  std::vector<double> of_classes = {};  // above 0; empty: all are 1
  int32_t ignored = -1;                 // a label that has the weight 0; -1: none
  // The input of samples that has a weight for each sample, or for each of its labels; "": none.
  std::string input = {};

  bool any() const { return !of_classes.empty() || ignored >= 0 || !input.empty(); }
  double of(int32_t label) const {
    if (label == ignored) return 0;
    return of_classes.empty() ? 1 : of_classes[static_cast<size_t>(label)];
  }
};

// Throws ConfigurationError unless samples have the weights that are named.
void check_label_weights(const LabelWeights& weights, const SampleSpec& spec);

// Weighs the labels of a batch. Borrows all of its arguments.
class LabelWeighing {
 public:
  LabelWeighing(const LabelWeights& weights, const SampleSpec& spec, const Batch& batch);
  // The weight of label k of a row, or of the target of a regression.
  double operator()(int64_t row, int64_t k) const;

 private:
  const LabelWeights& weights_;
  const int32_t* labels_;         // null: those of a regression
  const float* given_ = nullptr;  // null: all are 1
  int64_t labels_of_row_, given_of_row_ = 0;
};

// The weight of all labels of the global batch, see Batch::weight.
inline double weight_of(const Batch& batch) {
  return batch.weight.value_or(static_cast<double>(batch.global_valid));
}

// Returns a batch of zeros, all of them valid rows; 0 is valid as token id and as label.
Batch zero_batch(const SampleSpec& spec, int64_t rows);

// A work item: one of LoaderOptions::parts parts of a global batch.
struct Pick {
  int64_t batch = 0;  // counted from the first batch of the first epoch
  int part = 0;       // 0..parts-1
};

// The settings of a loader of batches.
struct LoaderOptions {
  int64_t batch_size = 1;  // rows of a global batch
  bool shuffle = true;
  uint64_t seed = 0;
  LastBatch last_batch = LastBatch::kKeep;
  int prefetch = 2;                 // batches made ahead by the workers; 0: in next()
  int workers = 1;                  // threads that share the rows of these batches
  Augmentation augmentation = {};   // of images
  LabelWeights label_weights = {};  // of a classification
  bool same_masks = false;          // tokens are hidden as in epoch 0 in each epoch
  bool listed_order = false;        // see EpochOrder
  int64_t first_epoch = 0;
  // Batches of the first epoch that are left out, because they were used before the run was saved.
  int64_t skip = 0;
  // The batches of an epoch that are loaded: first_batch, first_batch + batch_stride, ... A rank
  // whose first batch does not exist loads the last one instead, which is not used.
  int64_t first_batch = 0, batch_stride = 1;
  // Returns the positions of the rows of work item `part` in a global batch of `global_rows` rows;
  // a position of -1 is a padding row. Without `pick`, `part` is always 0 and means the rank's own
  // rows. The result must depend on the arguments only. If this function is null, a batch has all
  // rows.
  std::function<std::vector<int64_t>(int64_t global_rows, int part)> part = nullptr;
  // If given, returns which work item to load next, in place of one batch after the other. If it
  // returns nullopt, the batch has 0 rows. One worker at a time calls it, and it may block.
  std::function<std::optional<Pick>()> pick = nullptr;
  int parts = 1;  // work items of one global batch
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_BATCH_H_
