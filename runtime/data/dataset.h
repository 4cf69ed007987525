// A data set: samples that can be read in any order by any thread.
#ifndef RUNTIME_DATA_DATASET_H_
#define RUNTIME_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace runtime::data {

// What every sample looks like.
struct SampleSpec {
  std::vector<int64_t>
      shape;  // features in memory order: images [height, width, channels], vectors [features]
  int64_t classes = 0;  // > 0: the targets are int32 labels in 0..classes-1
  int64_t targets = 0;  // > 0: the target is that many float32 (regression)
  int64_t labels = 1;   // of a sample; language models: the next token at each position
  // Tokens that are characters: all of them, in the order of their ids; kept with the weights.
  std::string characters = {};
};

// Immutable after construction; read functions may be called concurrently.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const SampleSpec& spec() const = 0;
  virtual int64_t size() const = 0;
  // Writes the features of sample `index` (0..size-1), normalised, product(spec().shape) numbers.
  virtual void read_features(int64_t index, float* out) const = 0;
  // Classification only; the first of several.
  virtual int32_t label(int64_t index) const = 0;
  // spec().labels numbers.
  virtual void read_labels(int64_t index, int32_t* out) const { *out = label(index); }
  // Regression only; spec().targets numbers.
  virtual void read_targets(int64_t index, float* out) const = 0;
  virtual std::string description()
      const = 0;  // "Fashion-MNIST, 60000 samples of 28x28x1, 10 classes"
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_DATASET_H_
