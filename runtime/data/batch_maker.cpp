// Plans which samples a batch has, and reads, augments and pads them row by row.
#include "runtime/data/batch_maker.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "runtime/data/order.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

int64_t count_batches(int64_t size, const LoaderOptions& options) {
  const int64_t full = size / options.batch_size;
  const bool partial = size % options.batch_size != 0;
  return full + (partial && options.last_batch != LastBatch::kDrop ? 1 : 0);
}

void check_options(const Dataset& dataset, const LoaderOptions& options) {
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
  if (count_batches(dataset.size(), options) == 0) {
    throw DataError("no batch of " + std::to_string(options.batch_size) +
                    " can be made with last_batch = \"drop\" from the data set " +
                    dataset.description() + "; choose a smaller batch, \"keep\" or \"pad\"");
  }
}

}  // namespace

BatchMaker::BatchMaker(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
                       std::pmr::memory_resource* memory)
    : dataset_(std::move(dataset)),
      options_(options),
      memory_(memory),
      size_(dataset_->size()),
      features_(dataset_->spec().features()),
      epoch_(options.first_epoch),
      labels_of_sample_(memory),
      order_(memory) {
  check_options(*dataset_, options_);
  batches_ = count_batches(size_, options_);
  options_.first_batch = std::min(options_.first_batch, batches_ - 1);
  index_ = options_.first_batch + options_.skip * options_.batch_stride;
  order_.resize(static_cast<std::size_t>(size_));
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
  const SampleSpec& spec = dataset_->spec();
  std::size_t rows = 0;
  for (const auto& [key, part] : parts_) rows = std::max(rows, part.size());
  Batch batch{.positions = std::pmr::vector<int64_t>(memory_),
              .samples = std::pmr::vector<int64_t>(memory_),
              .features = std::pmr::vector<float>(memory_),
              .labels = std::pmr::vector<int32_t>(memory_),
              .targets = std::pmr::vector<float>(memory_)};
  batch.positions.resize(rows);
  batch.samples.resize(rows);
  batch.features.resize(rows * static_cast<std::size_t>(features_));
  if (spec.classes > 0) batch.labels.resize(rows * static_cast<std::size_t>(spec.labels));
  if (spec.targets > 0) batch.targets.resize(rows * static_cast<std::size_t>(spec.targets));
  return batch;
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
  const SampleSpec& spec = dataset_->spec();
  if (order_epoch_ != epoch) fill_epoch_order(order_, options_.shuffle, options_.seed, epoch);
  order_epoch_ = epoch;
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
  batch.features.resize(rows * static_cast<std::size_t>(features_));
  if (spec.classes > 0) batch.labels.resize(rows * static_cast<std::size_t>(spec.labels));
  if (spec.targets > 0) batch.targets.resize(rows * static_cast<std::size_t>(spec.targets));
  if (options_.label_weights.any()) batch.weight = weight_of_labels(first, batch.global_valid);
  batch.positions.assign(part.begin(), part.end());
  batch.samples.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    int64_t& position = batch.positions[row];
    if (position >= batch.global_valid) position = -1;
    batch.valid += position >= 0 ? 1 : 0;
    const int64_t source = position >= 0 ? position : batch.global_valid - 1;
    batch.samples[row] = order_[static_cast<std::size_t>(first + source)];
  }
}

double BatchMaker::weight_of_labels(int64_t first, int64_t count) {
  const auto labels = static_cast<std::size_t>(dataset_->spec().labels);
  labels_of_sample_.resize(labels);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    dataset_->read_labels(order_[static_cast<std::size_t>(first + i)], labels_of_sample_.data());
    for (const int32_t label : labels_of_sample_) sum += options_.label_weights.of(label);
  }
  return sum / static_cast<double>(labels);
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
