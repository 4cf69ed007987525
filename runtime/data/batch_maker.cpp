// Plans which samples a batch has, and reads, augments and pads them row by row.
#include "runtime/data/batch_maker.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/data/order.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

int64_t count_batches(int64_t size, const LoaderOptions& options) {
  const int64_t full = size / options.batch_size;
  const bool partial = size % options.batch_size != 0;
  return full + (partial && options.last_batch != LastBatch::kDrop ? 1 : 0);
}

// Returns the number of samples. Throws unless data set and options give batches.
int64_t checked_size(const Dataset& dataset, const LoaderOptions& options) {
  if (dataset.size() < 1) {
    throw DataError("the data set " + dataset.description() + " is empty; expected samples");
  }
  if (options.batch_size < 1 || options.prefetch < 0 || options.workers < 1) {
    throw DataError("cannot load batches of " + std::to_string(options.batch_size) +
                    " samples with prefetch " + std::to_string(options.prefetch) + " and " +
                    std::to_string(options.workers) +
                    " workers; expected a batch size and workers of at least 1, and a prefetch of "
                    "at least 0");
  }
  if (options.augmentation.any() && dataset.spec().shape.size() != 3) {
    throw ConfigurationError(
        "dataset.random_crop, random_resized_crop and random_flip change images; the data set " +
        dataset.description() + " has none; remove them");
  }
  if (options.augmentation.crop_padding > 0 && options.augmentation.least_area > 0) {
    throw ConfigurationError(
        "dataset.random_crop and dataset.random_resized_crop both cut out a part of an image; "
        "choose one");
  }
  const std::size_t weights = options.label_weights.of_classes.size();
  if (weights != 0 && weights != static_cast<std::size_t>(dataset.spec().classes)) {
    throw ConfigurationError(
        "training.class_weights has " + std::to_string(weights) + " numbers; the data set has " +
        std::to_string(dataset.spec().classes) + " classes; give one for each");
  }
  check_label_weights(options.label_weights, dataset.spec());
  if (count_batches(dataset.size(), options) == 0) {
    throw DataError("no batch of " + std::to_string(options.batch_size) +
                    " can be made with last_batch = \"drop\" from the data set " +
                    dataset.description() + "; choose a smaller batch, \"keep\" or \"pad\"");
  }
  return dataset.size();
}

// Gives the arrays of a batch so many rows; new numbers are 0.
void resize_batch(const SampleSpec& spec, std::size_t rows, Batch& batch) {
  batch.positions.resize(rows);
  batch.samples.resize(rows);
  batch.features.resize(rows * static_cast<std::size_t>(spec.features()));
  if (spec.classes > 0) batch.labels.resize(rows * static_cast<std::size_t>(spec.labels));
  if (spec.targets > 0) batch.targets.resize(rows * static_cast<std::size_t>(spec.targets));
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const std::size_t count = rows * static_cast<std::size_t>(spec.inputs[i].numbers());
    InputNumbers& numbers = batch.inputs[i];
    spec.inputs[i].integers ? numbers.integers.resize(count) : numbers.floats.resize(count);
  }
}

Batch allocate_batch(const SampleSpec& spec, std::size_t rows, std::pmr::memory_resource* memory) {
  Batch batch{.positions = std::pmr::vector<int64_t>(memory),
              .samples = std::pmr::vector<int64_t>(memory),
              .features = std::pmr::vector<float>(memory),
              .labels = std::pmr::vector<int32_t>(memory),
              .targets = std::pmr::vector<float>(memory),
              .inputs = std::pmr::vector<InputNumbers>(memory)};
  batch.inputs.reserve(spec.inputs.size());
  while (batch.inputs.size() < spec.inputs.size())
    batch.inputs.push_back({std::pmr::vector<float>(memory), std::pmr::vector<int32_t>(memory)});
  resize_batch(spec, rows, batch);
  return batch;
}

}  // namespace

Batch zero_batch(const SampleSpec& spec, int64_t rows) {
  Batch batch =
      allocate_batch(spec, static_cast<std::size_t>(rows), std::pmr::get_default_resource());
  batch.rows = batch.valid = batch.global_rows = batch.global_valid = rows;
  return batch;
}

void check_label_weights(const LabelWeights& weights, const SampleSpec& spec) {
  if (weights.input.empty()) return;
  const std::string given = "training.sample_weights = \"" + weights.input + "\": ";
  const auto found = spec.find_input(weights.input);
  if (!found) {
    std::string names;
    for (const SampleInput& input : spec.inputs) names += (names.empty() ? "" : ", ") + input.name;
    throw ConfigurationError(given + "the data set has no input of that name; expected " +
                             (names.empty() ? "one that [[dataset.input]] names" : names));
  }
  const SampleInput& input = spec.inputs[*found];
  if (!input.integers && (input.numbers() == 1 || input.numbers() == spec.labels)) return;
  throw ConfigurationError(
      given + "the input has " + std::to_string(input.numbers()) +
      (input.integers ? " integers" : " numbers") +
      " a sample; expected one number of type float32" +
      (spec.labels > 1 ? ", or one for each of the " + std::to_string(spec.labels) + " labels"
                       : ""));
}

LabelWeighing::LabelWeighing(const LabelWeights& weights, const SampleSpec& spec,
                             const Batch& batch)
    : weights_(weights),
      labels_(spec.classes > 0 ? batch.labels.data() : nullptr),
      labels_of_row_(spec.labels) {
  if (weights.input.empty()) return;
  const std::size_t input = *spec.find_input(weights.input);
  given_ = batch.inputs[input].floats.data();
  given_of_row_ = spec.inputs[input].numbers();
}

double LabelWeighing::operator()(int64_t row, int64_t k) const {
  const double weight = labels_ == nullptr ? 1 : weights_.of(labels_[row * labels_of_row_ + k]);
  if (given_ == nullptr) return weight;
  return weight * given_[row * given_of_row_ + (given_of_row_ == 1 ? 0 : k)];
}

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
                       std::pmr::memory_resource* memory)
    : dataset_(std::move(dataset)),
      options_(options),
      memory_(memory),
      size_(checked_size(*dataset_, options_)),
      features_(dataset_->spec().features()),
      epoch_(options.first_epoch),
      order_(size_, options.shuffle, options.seed, options.listed_order, memory),
      sample_(allocate_batch(dataset_->spec(), 1, memory)),
      weighing_(options_.label_weights, dataset_->spec(), sample_) {
  batches_ = count_batches(size_, options_);
  options_.first_batch = std::min(options_.first_batch, batches_ - 1);
  index_ = options_.first_batch + options_.skip * options_.batch_stride;
  for (const int64_t rows : {rows_of_batch(0), rows_of_batch(batches_ - 1)}) {
    for (int part = 0; part < options_.parts; ++part) {
      std::vector<int64_t>& list = parts_[{rows, part}];
      if (options_.part) {
        list = options_.part(rows, part);
      } else {
        list.resize(static_cast<std::size_t>(rows));
        std::iota(list.begin(), list.end(), int64_t{0});
      }
    }
  }
}

int64_t BatchMaker::rows_of_batch(int64_t index) const {
  if (options_.last_batch != LastBatch::kKeep) return options_.batch_size;
  return std::min(options_.batch_size, size_ - index * options_.batch_size);
}

Batch BatchMaker::make_batch() const {
  std::size_t rows = 0;
  for (const auto& [key, part] : parts_) rows = std::max(rows, part.size());
  return allocate_batch(dataset_->spec(), rows, memory_);
}

BatchMaker::Scratch BatchMaker::make_scratch() const {
  Scratch scratch(memory_);
  if (options_.augmentation.any()) scratch.resize(static_cast<std::size_t>(features_));
  return scratch;
}

void BatchMaker::plan(Batch& batch) {
  if (!options_.pick) {
    plan(batch, epoch_, index_, 0);
    return advance();
  }
  if (const std::optional<Pick> pick = options_.pick()) {
    plan(batch, options_.first_epoch + pick->batch / batches_, pick->batch % batches_, pick->part);
  } else {
    batch.rows = 0;
  }
}

void BatchMaker::plan(Batch& batch, int64_t epoch, int64_t index, int number) {
  order_.begin(epoch);
  const int64_t first = index * options_.batch_size;
  batch.global_rows = rows_of_batch(index);
  batch.global_valid = std::min(batch.global_rows, size_ - first);
  const std::vector<int64_t>& part = parts_.at({batch.global_rows, number});
  batch.rows = static_cast<int64_t>(part.size());
  batch.valid = 0;
  batch.epoch = epoch;
  batch.index = index;
  batch.part = number;
  const auto rows = static_cast<std::size_t>(batch.rows);
  resize_batch(dataset_->spec(), rows, batch);
  if (options_.label_weights.any())
    batch.weight = weight_of_labels(first, batch.global_valid, epoch);
  batch.positions.assign(part.begin(), part.end());
  for (std::size_t row = 0; row < rows; ++row) {
    int64_t& position = batch.positions[row];
    if (position >= batch.global_valid) position = -1;
    batch.valid += position >= 0 ? 1 : 0;
    const int64_t source = position >= 0 ? position : batch.global_valid - 1;
    batch.samples[row] = order_[first + source];
  }
}

double BatchMaker::weight_of_labels(int64_t first, int64_t count, int64_t epoch) {
  const SampleSpec& spec = dataset_->spec();
  const std::string& name = options_.label_weights.input;
  const std::size_t input = name.empty() ? 0 : *spec.find_input(name);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sample = order_[first + i];
    if (spec.classes > 0) dataset_->read_labels(sample, sample_.labels.data());
    if (!name.empty()) {
      std::pmr::vector<float>& given = sample_.inputs[input].floats;
      dataset_->read_input({&sample, 1}, input, {.floats = given.data()});
      if (spec.masking != nullptr && name == TokenMasking::kInput) {
        dataset_->read_features(sample, sample_.features.data());
        mask(epoch, {&sample, 1}, sample_.features.data(), given.data());
      }
      check_given(given, sample);
    }
    for (int64_t k = 0; k < spec.labels; ++k) sum += weighing_(0, k);
  }
  return sum / static_cast<double>(spec.labels);
}

void BatchMaker::mask(int64_t epoch, std::span<const int64_t> samples, float* features,
                      float* hidden) const {
  const auto length = static_cast<std::size_t>(features_);
  for (const int64_t sample : samples) {
    mask_tokens(*dataset_->spec().masking, options_.seed, options_.same_masks ? 0 : epoch, sample,
                {features, length}, hidden);
    features += length;
    hidden += length;
  }
}

void BatchMaker::check_given(std::span<const float> weights, int64_t sample) const {
  for (const float weight : weights) {
    if (weight >= 0 && weight <= std::numeric_limits<float>::max()) continue;
    throw DataError(dataset_->description() + ": sample " + std::to_string(sample) +
                    " has the weight " + std::to_string(weight) +
                    " (training.sample_weights); expected a finite number of at least 0");
  }
}

void BatchMaker::read(Batch& batch, int64_t begin, int64_t end, Scratch& scratch) const {
  if (begin == end) return;
  const SampleSpec& spec = dataset_->spec();
  const auto samples =
      std::span(batch.samples)
          .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  float* features = batch.features.data() + begin * features_;
  int32_t* labels = spec.classes > 0 ? batch.labels.data() + begin * spec.labels : nullptr;
  float* targets = spec.targets > 0 ? batch.targets.data() + begin * spec.targets : nullptr;
  const double least_area = options_.augmentation.least_area;
  if (least_area == 0) dataset_->read_samples(samples, features, labels, targets);
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    InputNumbers& numbers = batch.inputs[i];
    const int64_t place = begin * spec.inputs[i].numbers();
    InputArray out;
    if (spec.inputs[i].integers)
      out.integers = numbers.integers.data() + place;
    else
      out.floats = numbers.floats.data() + place;
    dataset_->read_input(samples, i, out);
  }
  if (spec.masking != nullptr) {
    float* const hidden = batch.inputs[*spec.find_input(TokenMasking::kInput)].floats.data();
    mask(batch.epoch, samples, features, hidden + begin * features_);
  }
  if (!options_.augmentation.any()) return;
  for (const int64_t sample : samples) {
    if (least_area > 0) {
      const RandomRegion region{least_area, options_.seed, batch.epoch, sample};
      dataset_->read_region(sample, region, features, scratch.data());
      if (labels != nullptr)
        dataset_->read_labels(sample, std::exchange(labels, labels + spec.labels));
      if (targets != nullptr)
        dataset_->read_targets(sample, std::exchange(targets, targets + spec.targets));
    }
    augment(options_.augmentation, spec.shape, options_.seed, batch.epoch, sample, features,
            scratch.data());
    features += features_;
  }
}

void BatchMaker::advance() {
  index_ += options_.batch_stride;
  if (index_ < batches_) return;
  index_ = options_.first_batch;
  ++epoch_;
}

}  // namespace runtime::data
