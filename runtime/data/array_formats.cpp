// IDX and NPY data sets: features and targets in two files of one array each.
#include <future>
#include <optional>

#include "runtime/data/array.h"
#include "runtime/data/formats.h"
#include "runtime/error.h"

namespace runtime::data {
namespace {

struct Arrays {
  Array features;
  std::optional<Array> targets;  // none: the files have only features
};

Arrays read_arrays(ReadArray read, const FilePair& files) {
  Arrays arrays{read(files.features), std::nullopt};
  if (files.targets.empty()) return arrays;
  arrays.targets = read(files.targets);
  check_counts(arrays.features, *arrays.targets);
  return arrays;
}

// Returns zeros for samples that have no targets.
Targets no_targets(const Array& features, const DatasetOptions& options) {
  const auto samples = static_cast<std::size_t>(features.dims.empty() ? 0 : features.dims[0]);
  Targets targets;
  if (options.classification) {
    targets.classes = options.classes;
    targets.labels.resize(samples);
    return targets;
  }
  targets.per_sample = options.preparation == nullptr ? 1 : options.preparation->targets;
  targets.values.resize(samples * static_cast<std::size_t>(targets.per_sample));
  return targets;
}

Targets targets_of(const Arrays& arrays, const DatasetOptions& options, int64_t classes) {
  if (!arrays.targets) return no_targets(arrays.features, options);
  return options.classification ? classification_targets(*arrays.targets, classes)
                                : regression_targets(*arrays.targets);
}

Part make_part(Arrays arrays, const DatasetOptions& options, int64_t classes) {
  Targets targets = targets_of(arrays, options, classes);
  Part part = features_of(std::move(arrays.features), options.normalises());
  part.targets = std::move(targets);
  return part;
}

void check_same_shape(const Part& train, const Part& validation) {
  if (train.shape == validation.shape &&
      train.targets.per_sample == validation.targets.per_sample) {
    return;
  }
  throw DataError(validation.title + ": samples have shape " + shape_text(validation.shape) +
                  " and " + std::to_string(validation.targets.per_sample) + " targets; expected " +
                  shape_text(train.shape) + " and " + std::to_string(train.targets.per_sample) +
                  " as in " + train.title);
}

}  // namespace

// Reads both splits at the same time, because decompression takes most of the time at the start.
Parts load_arrays(ReadArray read, const FilePair& train, const FilePair* validation,
                  const DatasetOptions& options) {
  std::future<Arrays> pending;
  if (validation != nullptr) {
    pending = std::async(std::launch::async, [&] { return read_arrays(read, *validation); });
  }
  Parts parts;
  parts.labelled = !train.targets.empty();
  parts.train = make_part(read_arrays(read, train), options, options.classes);
  if (validation != nullptr) {
    parts.validation = make_part(pending.get(), options, parts.train.targets.classes);
    check_same_shape(parts.train, *parts.validation);
  }
  return parts;
}

}  // namespace runtime::data
