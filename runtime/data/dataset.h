// A data set: samples that can be read in any order by any thread.
#ifndef RUNTIME_DATA_DATASET_H_
#define RUNTIME_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/masking.h"
#include "runtime/data/region.h"

namespace runtime::data {

// Returns how many numbers a tensor of this shape has.
int64_t numbers_in(const std::vector<int64_t>& shape);

// A further input of each sample, beside its features: a model may read it, or the loss as weights.
// Equivalent to: an entry of the dictionary that a data set of PyTorch returns.
struct SampleInput {
  std::string name;             // [a-z][a-z0-9_]*
  std::vector<int64_t> shape;   // of one sample; [1]: one number
  bool integers = false;        // int32, else float32
  int32_t least = 0, most = 0;  // integers: no sample has others than these and those between them
  int64_t numbers() const { return numbers_in(shape); }  // in one sample
  bool operator==(const SampleInput&) const = default;
};

// Where numbers of an input are written; the pointer of the other type is null.
struct InputArray {
  float* floats = nullptr;
  int32_t* integers = nullptr;
};

// What one sample consists of.
struct SampleSpec {
  // The features in memory order: [height, width, channels] of an image, or [features].
  std::vector<int64_t> shape;
  int64_t classes = 0;  // > 0: targets are int32 labels in 0..classes-1
  int64_t targets = 0;  // > 0: the target is that many float32 numbers (regression)
  int64_t labels = 1;   // labels of one sample; in language models the next token at each position
  // If tokens are characters: all characters in the order of their ids, in UTF-8. They are saved
  // with the weights.
  std::string characters = {};
  // How the data were prepared (preparation.h), which is saved with the weights as well; "": not
  // known.
  std::string preparation = {};
  std::vector<SampleInput> inputs = {};  // with different names
  int64_t vocabulary = 0;                // > 0: features are token ids in 0..vocabulary-1
  // Hides tokens where batches are made; null: it hides none. Labels are the tokens themselves.
  std::shared_ptr<const TokenMasking> masking = nullptr;
  int64_t features() const { return numbers_in(shape); }  // numbers in those of one sample
  // The place of an input in `inputs`; nullopt: there is none of that name.
  std::optional<std::size_t> find_input(const std::string& name) const;
};

// A data set, which is immutable after construction; any number of threads may call the read
// functions. They throw DataError if a file cannot be read. Equivalent to: a map-style
// torch.utils.data.Dataset.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const SampleSpec& spec() const = 0;
  virtual int64_t size() const = 0;
  // Writes the normalised features of sample `index` (0..size-1): product(spec().shape) numbers.
  virtual void read_features(int64_t index, float* out) const = 0;
  // Classification only. Returns the label of a sample; the first one if it has several.
  virtual int32_t label(int64_t index) const = 0;
  // Classification only. Writes spec().labels numbers.
  virtual void read_labels(int64_t index, int32_t* out) const { *out = label(index); }
  // Regression only. Writes spec().targets numbers.
  virtual void read_targets(int64_t index, float* out) const = 0;
  // Writes the features, and the labels or targets, of several samples. Each array has room for all
  // samples, which lie in it one behind the other in the order of `indices`. `labels` is null for a
  // regression, and `targets` for a classification. Data sets that read several samples together
  // faster than one by one override this function.
  virtual void read_samples(std::span<const int64_t> indices, float* features, int32_t* labels,
                            float* targets) const;
  // Writes input `input` of spec().inputs of several samples, one behind the other in the order of
  // `indices`. Data sets with such inputs override it.
  virtual void read_input(std::span<const int64_t> indices, std::size_t input,
                          InputArray out) const;
  // Images only. Chooses a region of image `index` and writes it, scaled to spec().shape as
  // Resampler does and normalised. `scratch` has room for the features of a sample. Data sets that
  // can read a part of an image override it.
  virtual void read_region(int64_t index, const RandomRegion& region, float* out,
                           float* scratch) const;
  // Returns the file that sample `index` comes from; "" if several samples share one.
  virtual std::string file(int64_t) const { return {}; }
  // Returns, for example, "Fashion-MNIST, 60000 samples of 28x28x1, 10 classes".
  virtual std::string description() const = 0;
};

}  // namespace runtime::data

#endif  // RUNTIME_DATA_DATASET_H_
