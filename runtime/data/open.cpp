// Opens files by format, splits, standardises and resizes them, and refuses keys that nothing
// reads.
#include "runtime/data/open.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>

#include "runtime/data/formats.h"
#include "runtime/data/memory_dataset.h"
#include "runtime/data/records.h"
#include "runtime/data/standardize.h"
#include "runtime/data/synthetic.h"
#include "runtime/data/tokens.h"
#include "runtime/data/views.h"
#include "runtime/error.h"
#include "runtime/row_of.h"

namespace runtime::data {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw ConfigurationError(message); }

void need(const std::string& value, const std::string& key, const std::string& format) {
  if (value.empty())
    refuse("dataset." + key + " is missing; expected a path, for format " + format);
}

void check_resize(const DatasetOptions& options) {
  if (!options.resize.empty() && options.resize.size() != 2) {
    refuse("dataset.resize has " + std::to_string(options.resize.size()) +
           " numbers; expected [height, width]");
  }
  if (options.resize_shorter > 0 &&
      (options.resize.empty() ||
       options.resize_shorter < *std::max_element(options.resize.begin(), options.resize.end()))) {
    refuse("dataset.resize_shorter is " + std::to_string(options.resize_shorter) +
           "; expected dataset.resize, which is cut out of the scaled image, and no larger side");
  }
}

bool any_of(const std::string& wanted, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), wanted) != names.end();
}

// Refuses keys that the format does not read, because whoever gives them expects an effect.
void check_unused(const DatasetOptions& options) {
  const std::string& format = options.format;
  const bool folder = format == "cifar10" || (format == "idx" && options.target_path.empty());
  const bool well_known = !options.name.empty() && format != "synthetic";
  const auto refuse_if = [&](bool given, const char* key) {
    if (!given) return;
    refuse(std::string("dataset.") + key + " is given, but is not used with " +
           (options.name.empty() ? "format " + format : "the data set " + options.name) +
           "; remove it");
  };
  const bool two_files = any_of(format, {"idx", "npy"}) && !well_known;
  refuse_if(!options.target_path.empty() && !two_files, "target_path");
  refuse_if(!options.validation_path.empty() && (folder || format == "synthetic"),
            "validation_path");
  refuse_if(!options.validation_target_path.empty() && (folder || !two_files),
            "validation_target_path");
  refuse_if(!options.features.empty() && format != "csv", "features");
  refuse_if(!options.target.empty() && format != "csv", "target");
  refuse_if(options.header.has_value() && format != "csv", "header");
  refuse_if(!options.path.empty() && format == "synthetic", "path");
  refuse_if(options.samples != 0 && format != "synthetic", "samples");
  const bool text = is_text(options);
  refuse_if(options.normalises() && (format == "synthetic" || text),
            "mean, dataset.std or dataset.standardize");
  refuse_if(!options.resize.empty() && text, "resize");
  refuse_if(!options.classification && text, "task = \"regression\"");
  refuse_if(options.standardize && format == "images", "standardize");
  refuse_if(!options.classification && any_of(format, {"cifar10", "images"}),
            "task = \"regression\"");
}

// Without labels a file of features stands alone.
bool lacks_targets(const DatasetOptions& options) {
  return !options.needs_targets && options.target_path.empty() &&
         !std::filesystem::is_directory(options.path);
}

Parts load_two_files(const DatasetOptions& options) {
  need(options.path, "path", options.format);
  if (!lacks_targets(options)) need(options.target_path, "target_path", options.format);
  const FilePair train{options.path, options.target_path};
  const FilePair validation{options.validation_path, options.validation_target_path};
  const FilePair* second = nullptr;
  if (!validation.features.empty()) {
    need(validation.targets, "validation_target_path", options.format);
    second = &validation;
  }
  using Load = Parts (*)(const FilePair&, const FilePair*, const DatasetOptions&);
  return row_of<Load>("dataset.format", options.format, {{"idx", load_idx}, {"npy", load_npy}})(
      train, second, options);
}

// Reads a folder with the four files under MNIST's names.
Parts load_mnist_folder(const DatasetOptions& options) {
  const FilePair train = mnist_files(options.path, "train");
  const FilePair test = mnist_files(options.path, "t10k");
  return load_idx(train, options.validation_split > 0 ? nullptr : &test, options);
}

Parts load_parts(const DatasetOptions& options) {
  if (options.format == "idx" && options.target_path.empty() && !lacks_targets(options)) {
    need(options.path, "path", options.format);
    return load_mnist_folder(options);
  }
  if (options.format == "idx" || options.format == "npy") return load_two_files(options);
  need(options.path, "path", options.format);
  using Load = Parts (*)(const DatasetOptions&);
  return row_of<Load>(
      "dataset.format", options.format,
      {{"csv", [](const auto& o) { return load_csv(o.path, o.validation_path, o); }},
       {"cifar10", [](const auto& o) { return load_cifar10(o.path, o.validation_split == 0); }}})(
      options);
}

// Returns the statistics of the training samples, which are those of an earlier run if it is known.
FeatureStatistics standardize_parts(Parts& parts, int64_t training,
                                    const Preparation* preparation) {
  make_floats(parts.train);
  FeatureStatistics statistics =
      preparation == nullptr
          ? measure(parts.train, training)
          : known_statistics(*preparation, parts.train.features(), parts.train.title);
  standardize(parts.train, statistics);
  if (parts.validation) {
    make_floats(*parts.validation);
    standardize(*parts.validation, statistics);
  }
  return statistics;
}

DatasetPair open_parts(Parts parts, const DatasetOptions& options) {
  if (options.name == "fashion_mnist") parts.train.title = "Fashion-MNIST";
  if (options.name == "mnist") parts.train.title = "MNIST";
  if (parts.validation && !options.name.empty()) parts.validation->title = parts.train.title;
  const int64_t training = training_samples(parts.train.samples, options.validation_split);
  Preparation preparation;
  if (options.standardize)
    preparation.features = standardize_parts(parts, training, options.preparation.get());
  preparation.columns = std::move(parts.columns);
  preparation.class_names = std::move(parts.class_names);
  preparation.named = parts.named;
  const Normalization normalization{options.mean, options.std};
  DatasetPair pair = split_at(make_memory_dataset(std::move(parts.train), normalization), training);
  if (parts.validation) {
    pair.validation = make_memory_dataset(std::move(*parts.validation), normalization);
  }
  pair.preparation = std::move(preparation);
  pair.labelled = parts.labelled;
  return pair;
}

DatasetPair open_synthetic_tokens(const DatasetOptions& options) {
  if (options.shape.size() != 1 || options.samples < 1 || options.classes < 1 ||
      options.classes > kMaxVocabulary || options.samples > (int64_t{1} << 40)) {
    refuse("synthetic tokens: dataset.samples = " + std::to_string(options.samples) +
           ", dataset.classes = " + std::to_string(options.classes) + ", model.input = " +
           shape_text(options.shape) + "; expected at least 1 of each, and one length");
  }
  const int64_t context = options.shape[0];
  const int64_t training = training_samples(options.samples, options.validation_split);
  SampleSpec spec;
  spec.classes = options.classes;
  const auto part = [&](int64_t begin, int64_t end) {
    const Windows windows{begin * context, end * context + 1, context, context};
    return make_token_dataset(
        make_synthetic_tokens(options.samples * context + 1, options.classes, options.seed),
        windows, spec, "synthetic");
  };
  DatasetPair pair{part(0, training), nullptr};
  if (training < options.samples) pair.validation = part(training, options.samples);
  return pair;
}

DatasetPair open_synthetic(const DatasetOptions& options) {
  if (options.next_token) return open_synthetic_tokens(options);
  SyntheticOptions synthetic{options.shape, options.samples, 0, 0, options.seed};
  (options.classification ? synthetic.classes : synthetic.targets) =
      options.classification ? options.classes : options.targets;
  auto all = make_synthetic(synthetic);
  const int64_t training = training_samples(all->size(), options.validation_split);
  return split_at(std::move(all), training);
}

DatasetOptions resolve(const DatasetOptions& options) {
  DatasetOptions resolved = options;
  if (options.name == "synthetic") resolved.format = "synthetic";
  if (!options.name.empty() && options.name != "synthetic") resolved = resolve_well_known(options);
  if (any_of(resolved.format,
             {"idx", "cifar10", "csv", "npy", "images", "text", "tokens", "synthetic"}))
    return resolved;
  if (is_of_plugin(resolved.format) && options.open_records) return resolved;
  refuse("dataset.format is \"" + resolved.format +
         "\"; expected idx, cifar10, csv, npy, images, text, tokens, synthetic or "
         "<plugin>.<format>, or dataset.name");
}

// Opens a data set whose images, if it has any, are resized later.
DatasetPair open_any(const DatasetOptions& options) {
  if (options.format == "synthetic") return open_synthetic(options);
  if (!is_of_plugin(options.format)) return open_parts(load_parts(options), options);
  need(options.path, "path", options.format);
  return open_records(options);
}

// Opens a folder of images, which resizes them itself.
DatasetPair open_folder(const DatasetOptions& options) {
  need(options.path, "path", options.format);
  DatasetPair pair = open_images(options);
  const int64_t training = training_samples(pair.train->size(), options.validation_split);
  if (training == pair.train->size()) return pair;
  const DatasetPair split = split_at(std::move(pair.train), training);
  pair.train = split.train;
  pair.validation = split.validation;
  return pair;
}

DatasetPair open_resized(const DatasetOptions& options) {
  DatasetPair pair = open_any(options);
  if (options.resize.empty()) return pair;
  for (auto* part : {&pair.train, &pair.validation}) {
    if (!*part) continue;
    *part =
        resized(std::move(*part), {options.resize[0], options.resize[1]}, options.resize_shorter);
  }
  return pair;
}

// Adds what the options say to what the format has found.
void complete(Preparation& preparation, const DatasetOptions& options, const SampleSpec& spec) {
  preparation.classes = spec.classes;
  preparation.targets = spec.targets;
  preparation.mean = options.mean;
  preparation.std = options.std;
  preparation.resize = options.resize;
  preparation.resize_shorter = options.resize_shorter;
  preparation.characters = spec.characters;
  if (options.format != "tokens") preparation.tokenizer = options.tokenizer;
}

}  // namespace

bool is_table(const std::string& format) { return format == "csv"; }

DatasetPair open_dataset(const DatasetOptions& options) {
  check_resize(options);
  DatasetOptions resolved = resolve(options);
  check_unused(resolved);
  if (resolved.preparation != nullptr && resolved.classes == 0)
    resolved.classes = resolved.preparation->classes;
  if (is_text(resolved)) need(resolved.path, "path", resolved.format);
  DatasetPair pair = is_text(resolved)             ? open_text(resolved)
                     : resolved.format == "images" ? open_folder(resolved)
                                                   : open_resized(resolved);
  complete(pair.preparation, resolved, pair.train->spec());
  return pair;
}

}  // namespace runtime::data
