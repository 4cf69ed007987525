// Checks, scales and standardises samples that somebody else reads.
#include "runtime/data/records.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/data/array.h"
#include "runtime/data/memory_dataset.h"
#include "runtime/data/standardize.h"
#include "runtime/data/views.h"
#include "runtime/error.h"
#include "runtime/system/available_memory.h"

namespace runtime::data {
namespace {

// How features become what the model gets.
struct Scaling {
  bool bytes = false;
  std::vector<ChannelScale> channels = {};           // of bytes; empty: none
  std::vector<NumberScale> numbers = {};             // of other features; empty: none
  std::optional<FeatureStatistics> statistics = {};  // of each feature

  // Converts `count` samples that were read into `out`. Bytes were read into the last quarter of
  // the array: number i overwrites only bytes up to the i-th, which is read before.
  void apply(float* out, std::size_t count) const {
    if (bytes) {
      const uint8_t* from = reinterpret_cast<const uint8_t*>(out) + 3 * count;
      for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(from[i]) / 255.0f;
    }
    for (std::size_t i = 0; i < count && !channels.empty(); ++i)
      out[i] = channels[i % channels.size()](out[i]);
    for (std::size_t i = 0; i < count && !numbers.empty(); ++i)
      out[i] = numbers[i % numbers.size()](static_cast<double>(out[i]));
    if (!statistics) return;
    const std::size_t features = statistics->mean.size();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t f = i % features;
      out[i] = static_cast<float>((static_cast<double>(out[i]) - statistics->mean[f]) /
                                  statistics->deviation[f]);
    }
  }
};

class RecordDataset final : public Dataset {
 public:
  RecordDataset(std::shared_ptr<const Records> records, SampleSpec spec, Scaling scaling)
      : records_(std::move(records)), spec_(std::move(spec)), scaling_(std::move(scaling)) {}
  const SampleSpec& spec() const override { return spec_; }
  int64_t size() const override { return records_->spec().samples; }
  void read_features(int64_t index, float* out) const override {
    read_samples({&index, 1}, out, nullptr, nullptr);
  }
  void read_labels(int64_t index, int32_t* out) const override {
    read_samples({&index, 1}, nullptr, out, nullptr);
  }
  int32_t label(int64_t index) const override {
    std::vector<int32_t> labels(static_cast<std::size_t>(spec_.labels));
    read_labels(index, labels.data());
    return labels[0];
  }
  void read_targets(int64_t index, float* out) const override {
    read_samples({&index, 1}, nullptr, nullptr, out);
  }
  std::string description() const override {
    return describe(records_->spec().title, size(), spec_);
  }

  void read_samples(std::span<const int64_t> indices, float* features, int32_t* labels,
                    float* targets) const override {
    const auto count = indices.size() * static_cast<std::size_t>(spec_.features());
    void* read_to = features;
    if (features != nullptr && scaling_.bytes)
      read_to = reinterpret_cast<uint8_t*>(features) + 3 * count;
    void* target = spec_.classes > 0 ? static_cast<void*>(labels) : static_cast<void*>(targets);
    records_->read(indices, read_to, target);
    if (features != nullptr) scaling_.apply(features, count);
    if (features != nullptr && spec_.labels > 1) check_tokens(indices, features);
    if (labels != nullptr) check_labels(indices, labels);
  }

  void read_input(std::span<const int64_t> indices, std::size_t input,
                  InputArray out) const override {
    const SampleInput& spec = spec_.inputs[input];
    void* const to = spec.integers ? static_cast<void*>(out.integers) : out.floats;
    records_->read_input(indices, input, to);
    if (!spec.integers) return;
    const auto each = static_cast<std::size_t>(spec.numbers());
    for (std::size_t i = 0; i < indices.size() * each; ++i) {
      if (out.integers[i] >= spec.least && out.integers[i] <= spec.most) continue;
      throw DataError(records_->spec().title + ": sample " + std::to_string(indices[i / each]) +
                      " has " + std::to_string(out.integers[i]) + " in the input " + spec.name +
                      "; expected a number from " + std::to_string(spec.least) + " to " +
                      std::to_string(spec.most) + ", as the reader has announced");
    }
  }

 private:
  void check_labels(std::span<const int64_t> indices, const int32_t* labels) const {
    const auto each = static_cast<std::size_t>(spec_.labels);
    for (std::size_t i = 0; i < indices.size() * each; ++i) {
      if (labels[i] < 0 || labels[i] >= spec_.classes)
        refuse(indices[i / each], "label " + std::to_string(labels[i]));
    }
  }
  // A model looks its tokens up in a table.
  void check_tokens(std::span<const int64_t> indices, const float* features) const {
    const auto each = static_cast<std::size_t>(spec_.features());
    for (std::size_t i = 0; i < indices.size() * each; ++i) {
      const float token = features[i];
      if (!(token >= 0 && token < static_cast<float>(spec_.classes)) || token != std::floor(token))
        refuse(indices[i / each], "token " + std::to_string(token));
    }
  }
  [[noreturn]] void refuse(int64_t index, const std::string& what) const {
    throw DataError(records_->spec().title + ": sample " + std::to_string(index) + " has " + what +
                    "; expected a whole number from 0 to " + std::to_string(spec_.classes - 1) +
                    "; correct the data, or set dataset.classes");
  }

  std::shared_ptr<const Records> records_;
  SampleSpec spec_;
  Scaling scaling_;
};

[[noreturn]] void unexpected(const RecordSpec& record, const std::string& actual,
                             const std::string& expected) {
  throw DataError(record.title + ": the samples have " + actual + "; expected " + expected +
                  "; correct [dataset], the model or the data");
}

// A sample must fit into memory, and so must the order of an epoch.
void check_record_size(const RecordSpec& record) {
  const std::string remedy = "use samples of fewer numbers, or fewer samples";
  const auto numbers = static_cast<uint64_t>(numbers_in(record.shape) + record.targets);
  system::require_memory(numbers * 4 * sizeof(float), record.title + ": one sample", remedy);
  system::require_memory(static_cast<uint64_t>(record.samples) * sizeof(int64_t),
                         record.title + ": the order of its samples", remedy);
}

SampleSpec spec_of(const RecordSpec& record, const DatasetOptions& options) {
  check_record_size(record);
  SampleSpec spec;
  spec.shape = record.shape;
  spec.inputs = record.inputs;
  if (options.classification != (record.classes > 0)) {
    unexpected(record, record.classes > 0 ? "classes as targets" : "numbers as targets",
               options.classification ? "classes" : "numbers, for dataset.task = \"regression\"");
  }
  if (!options.classification) {
    spec.targets = record.targets;
    return spec;
  }
  spec.labels = record.targets;
  const int64_t expected = options.next_token ? numbers_in(record.shape) : 1;
  if (record.targets != expected) {
    unexpected(
        record, std::to_string(record.targets) + " labels each",
        std::to_string(expected) +
            (options.next_token ? ", one for each token" : ", or dataset.task = \"next_token\""));
  }
  spec.classes = options.classes > 0 ? options.classes : record.classes;
  if (options.next_token) spec.vocabulary = spec.classes;
  if (spec.classes < record.classes) {
    unexpected(record, std::to_string(record.classes) + " classes",
               "at most " + std::to_string(spec.classes) + " (dataset.classes)");
  }
  return spec;
}

// Validation samples must fit those that the model is trained with.
void check_validation(const RecordSpec& validation, const RecordSpec& train,
                      const SampleSpec& spec) {
  check_record_size(validation);
  if (validation.shape != train.shape || validation.bytes != train.bytes) {
    unexpected(validation,
               "the shape " + shape_text(validation.shape) + (validation.bytes ? " of bytes" : ""),
               shape_text(train.shape) + (train.bytes ? " of bytes" : "") + ", as " + train.title);
  }
  if (validation.inputs != train.inputs)
    unexpected(validation, "other inputs", "those of " + train.title);
  const bool same_kind = (validation.classes > 0) == (train.classes > 0);
  if (!same_kind || validation.targets != train.targets || validation.classes > spec.classes) {
    unexpected(validation,
               std::to_string(validation.targets) + " targets of " +
                   std::to_string(validation.classes) + " classes",
               std::to_string(train.targets) + " of at most " + std::to_string(spec.classes) +
                   ", as " + train.title);
  }
}

// The statistics of the first `samples` samples, as they are before any other scaling.
FeatureStatistics measure_records(const std::shared_ptr<const Records>& records,
                                  const SampleSpec& spec, int64_t samples) {
  const RecordDataset raw(records, spec, {.bytes = records->spec().bytes});
  const int64_t features = spec.features();
  std::vector<float> sample(static_cast<std::size_t>(features));
  std::vector<double> numbers(sample.size());
  return measure(features, samples, [&](const std::function<void(const double*)>& visit) {
    for (int64_t i = 0; i < samples; ++i) {
      raw.read_features(i, sample.data());
      numbers.assign(sample.begin(), sample.end());
      visit(numbers.data());
    }
  });
}

}  // namespace

void Records::read_input(std::span<const int64_t>, std::size_t, void*) const {
  throw InternalError(spec().title + " has named inputs, but no function that reads them");
}

bool is_of_plugin(const std::string& format) { return format.find('.') != std::string::npos; }

DatasetPair open_records(const DatasetOptions& options) {
  const RecordsPair records = options.open_records(options);
  const RecordSpec& train = records.train->spec();
  const SampleSpec spec = spec_of(train, options);
  const int64_t training = training_samples(train.samples, options.validation_split);
  Scaling scaling{.bytes = train.bytes};
  const Normalization normalization{options.mean, options.std};
  const bool normalised = !options.mean.empty() || !options.std.empty();
  if (normalised && train.bytes)
    scaling.channels = scales_of<float>(normalization, spec.shape.back());
  if (normalised && !train.bytes)
    scaling.numbers = scales_of<double>(normalization, spec.shape.back());
  if (options.standardize) {
    scaling.statistics = options.preparation == nullptr
                             ? measure_records(records.train, spec, training)
                             : known_statistics(*options.preparation, spec.features(), train.title);
  }
  DatasetPair pair{std::make_shared<RecordDataset>(records.train, spec, scaling), nullptr};
  if (scaling.statistics) pair.preparation.features = *scaling.statistics;
  if (records.validation == nullptr) return pair;
  check_validation(records.validation->spec(), train, spec);
  pair.validation = std::make_shared<RecordDataset>(records.validation, spec, scaling);
  return pair;
}

}  // namespace runtime::data
