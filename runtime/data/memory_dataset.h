// Data sets whose samples are in host memory.
#ifndef RUNTIME_DATA_MEMORY_DATASET_H_
#define RUNTIME_DATA_MEMORY_DATASET_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/held.h"
#include "runtime/data/inputs.h"
#include "runtime/data/part.h"

namespace runtime::data {

// Normalisation (x - mean) / std for each channel, which is the last dimension. One number holds
// for all channels; empty means 0 or 1.
struct Normalization {
  std::vector<double> mean;
  std::vector<double> std;
};

// Normalisation of one channel, computed in the type of its members.
template <class Real>
struct ScaleIn {
  Real mean = 0, deviation = 1;
  float operator()(Real x) const { return static_cast<float>((x - mean) / deviation); }
};
using ChannelScale = ScaleIn<float>;  // of bytes, which are scaled to 0..1
using NumberScale = ScaleIn<double>;  // of numbers, which may have more digits than float32

// Returns the scale of each channel in float or double. Throws ConfigurationError if the numbers do
// not fit the channels.
template <class Real>
std::vector<ScaleIn<Real>> scales_of(const Normalization& normalization, int64_t channels);

// A part whose numbers do not change any more: all that a data set reads.
struct HeldPart {
  std::string title;
  std::vector<int64_t> shape;  // of one sample
  int64_t samples = 0;
  int64_t classes = 0, targets = 0;  // as in SampleSpec
  Bytes bytes = {};                  // the features of a ByteDataset
  Held<float> floats = {};           // those of a FloatDataset
  Held<int32_t> labels = {};
  Held<float> values = {};  // of the targets
  std::vector<InputColumn> inputs = {};
  std::string description() const;
};

// Holds a part, whose numbers are normalised first; bytes are normalised when they are read. Throws
// ConfigurationError and DataError.
HeldPart hold(Part part, const Normalization& normalization);

// What ByteDataset and FloatDataset have in common: targets and description.
class MemoryDataset : public Dataset {
 public:
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return size_; }
  int32_t label(int64_t index) const override;
  void read_targets(int64_t index, float* out) const override;
  std::string description() const override;

 protected:
  explicit MemoryDataset(HeldPart& part);
  int64_t features() const { return features_; }
  int64_t channels() const { return spec_.shape.back(); }

 private:
  SampleSpec spec_;
  int64_t size_;
  int64_t features_;
  std::string title_;
  Held<int32_t> labels_;
  Held<float> values_;
};

// A data set whose features stay bytes. Reading looks each byte up in the table of its channel, so
// that the result is exactly float(x / 255 - mean) / std without arithmetic at that time.
class ByteDataset final : public MemoryDataset {
 public:
  ByteDataset(HeldPart part, const Normalization& normalization);
  void read_features(int64_t index, float* out) const override;

 private:
  Bytes bytes_;
  std::vector<std::array<float, 256>> tables_;  // one table for all channels, or one for each
};

// A data set whose features are float32.
class FloatDataset final : public MemoryDataset {
 public:
  explicit FloatDataset(HeldPart part) : MemoryDataset(part), floats_(std::move(part.floats)) {}
  void read_features(int64_t index, float* out) const override;

 private:
  Held<float> floats_;
};

// Returns the data set of the class that fits the features of `part`, with the inputs of `part`.
// `normalization` is that of hold().
std::shared_ptr<const Dataset> make_memory_dataset(HeldPart part,
                                                   const Normalization& normalization);

// Returns "<title>, <size> samples of 28x28x1, 10 classes".
std::string describe(const std::string& title, int64_t size, const SampleSpec& spec);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_MEMORY_DATASET_H_
