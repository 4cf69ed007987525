// Data sets whose samples are in host memory.
#ifndef RUNTIME_DATA_MEMORY_DATASET_H_
#define RUNTIME_DATA_MEMORY_DATASET_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
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

// What ByteDataset and FloatDataset have in common: targets and description.
class MemoryDataset : public Dataset {
 public:
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return size_; }
  int32_t label(int64_t index) const override;
  void read_targets(int64_t index, float* out) const override;
  std::string description() const override;

 protected:
  explicit MemoryDataset(Part& part);
  int64_t features() const { return features_; }
  int64_t channels() const { return spec_.shape.back(); }

 private:
  SampleSpec spec_;
  int64_t size_;
  int64_t features_;
  std::string title_;
  Targets targets_;
};

// A data set whose features stay bytes. Reading looks each byte up in the table of its channel, so
// that the result is exactly float(x / 255 - mean) / std without arithmetic at that time.
class ByteDataset final : public MemoryDataset {
 public:
  ByteDataset(Part part, const Normalization& normalization);
  void read_features(int64_t index, float* out) const override;

 private:
  Bytes bytes_;
  std::vector<std::array<float, 256>> tables_;  // one table for all channels, or one for each
};

// A data set whose features are float32, normalised in float64 when it is constructed.
class FloatDataset final : public MemoryDataset {
 public:
  FloatDataset(Part part, const Normalization& normalization);
  void read_features(int64_t index, float* out) const override;

 private:
  std::vector<float> floats_;
};

// Returns the data set of the class that fits the features of `part`.
std::shared_ptr<const Dataset> make_memory_dataset(Part part, const Normalization& normalization);

// Returns "<title>, <size> samples of 28x28x1, 10 classes".
std::string describe(const std::string& title, int64_t size, const SampleSpec& spec);

}  // namespace runtime::data

#endif  // RUNTIME_DATA_MEMORY_DATASET_H_
