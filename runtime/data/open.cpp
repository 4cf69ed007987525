// Opens files by format, splits, standardises and resizes them, and refuses keys that nothing
// reads.
#include "runtime/data/open.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "runtime/data/formats.h"
#include "runtime/data/inputs.h"
#include "runtime/data/memory_dataset.h"
#include "runtime/data/records.h"
#include "runtime/data/shared.h"
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

// Without labels a file of features stands alone.
bool lacks_targets(const DatasetOptions& options) {
  return !options.needs_targets && options.target_path.empty() &&
         !std::filesystem::is_directory(options.path);
}

Parts load_two_files(const DatasetOptions& options, ReadArray read) {
  if (!lacks_targets(options)) need(options.target_path, "target_path", options.format);
  const FilePair train{options.path, options.target_path};
  const FilePair validation{options.validation_path, options.validation_target_path};
  if (validation.features.empty()) return load_arrays(read, train, nullptr, options);
  need(validation.targets, "validation_target_path", options.format);
  return load_arrays(read, train, &validation, options);
}

// Reads a folder with the four files under MNIST's names.
Parts load_mnist_folder(const DatasetOptions& options) {
  const FilePair train = mnist_files(options.path, "train");
  const FilePair test = mnist_files(options.path, "t10k");
  return load_arrays(read_idx, train, options.validation_split > 0 ? nullptr : &test, options);
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

// Reads the inputs of one part that have files of their own.
void read_inputs(const DatasetOptions& options, bool validation, HeldPart& part) {
  for (const InputSource& source : options.inputs) {
    if (source.path.empty()) continue;
    const std::string& path = validation ? source.validation_path : source.path;
    if (path.empty()) {
      refuse("dataset.input \"" + source.name + "\" has no validation_path, but " +
             part.description() + " are validation samples; give the file of their input");
    }
    part.inputs.push_back(read_input_file(source, path, part.samples, part.description()));
  }
}

// Makes of parsed files what data sets read.
Table finish(Parts parts, const DatasetOptions& options) {
  if (const char* title = well_known_title(options.name)) parts.train.title = title;
  if (parts.validation && !options.name.empty()) parts.validation->title = parts.train.title;
  const int64_t training = training_samples(parts.train.samples, options.validation_split);
  Table table;
  Preparation& preparation = table.preparation;
  if (options.standardize)
    preparation.features = standardize_parts(parts, training, options.preparation.get());
  preparation.columns = std::move(parts.columns);
  preparation.class_names = std::move(parts.class_names);
  preparation.named = parts.named;
  table.labelled = parts.labelled;
  const Normalization normalization{options.mean, options.std};
  const auto add = [&](Part part, std::vector<InputColumn> inputs) {
    HeldPart held = hold(std::move(part), normalization);
    held.inputs = std::move(inputs);
    read_inputs(options, !table.parts.empty(), held);
    table.parts.push_back(std::move(held));
  };
  add(std::move(parts.train), std::move(parts.inputs));
  if (!parts.validation) return table;
  add(std::move(*parts.validation), std::move(parts.validation_inputs));
  agree(table.parts[0].inputs, table.parts[1].inputs, table.parts[1].description());
  return table;
}

DatasetPair open_finished(Table table, const DatasetOptions& options) {
  const Normalization normalization{options.mean, options.std};
  DatasetPair pair;
  pair.train = make_memory_dataset(std::move(table.parts[0]), normalization);
  if (table.parts.size() > 1)
    pair.validation = make_memory_dataset(std::move(table.parts[1]), normalization);
  pair.preparation = std::move(table.preparation);
  pair.labelled = table.labelled;
  return pair;
}

DatasetPair open_parts(Parts parts, const DatasetOptions& options) {
  return open_finished(finish(std::move(parts), options), options);
}

DatasetPair open_csv(const DatasetOptions& options) {
  const auto parse = [&] {
    return finish(load_csv(options.path, options.validation_path, options), options);
  };
  if (!options.shared) return open_finished(parse(), options);
  std::vector<std::string> files = {options.path, options.validation_path}, notes;
  for (const InputSource& source : options.inputs)
    files.insert(files.end(), {source.path, source.validation_path});
  const auto fill = [&](system::Pieces& pieces) { write_table(parse(), pieces); };
  DatasetPair pair = open_finished(read_table(read_once(options, files, fill, notes)), options);
  pair.notes = std::move(notes);
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
  return {make_synthetic(synthetic), nullptr};
}

// A format as a row. The caller of `open` splits and resizes what it returns.
struct FormatRow {
  std::string name;
  DatasetPair (*open)(const DatasetOptions& options);
  std::set<std::string> uses;  // of the keys that only some formats use, see check_unused()
  bool resizes = false;        // it resizes by itself
};

DatasetPair open_idx(const DatasetOptions& o) {
  const bool folder = o.target_path.empty() && !lacks_targets(o);
  return open_parts(folder ? load_mnist_folder(o) : load_two_files(o, read_idx), o);
}

const std::vector<FormatRow>& formats() {
  using Options = DatasetOptions;
  static const std::vector<FormatRow>& all = *new std::vector<FormatRow>{
      {"idx",
       open_idx,
       {"path", "target_path", "validation_path", "validation_target_path", "mean", "standardize",
        "resize", "task", "input"}},
      {"cifar10",
       [](const Options& o) {
         return open_parts(load_cifar10(o.path, o.validation_split == 0), o);
       },
       {"path", "mean", "standardize", "resize", "input"}},
      {"csv",
       open_csv,
       {"path", "validation_path", "features", "target", "header", "mean", "standardize", "resize",
        "task", "input", "columns"}},
      {"npy",
       [](const Options& o) { return open_parts(load_two_files(o, read_npy), o); },
       {"path", "target_path", "validation_path", "validation_target_path", "mean", "standardize",
        "resize", "task", "input"}},
      {"images", open_images, {"path", "validation_path", "mean", "resize"}, true},
      {"text", open_text, {"path", "validation_path"}},
      {"tokens", open_tokens, {"path", "validation_path"}},
      {"sentences", open_sentences, {"path", "validation_path", "target", "header", "task"}},
      {"synthetic", open_synthetic, {"samples", "resize", "task"}}};
  return all;
}

const FormatRow& of_plugins() {
  static const FormatRow row = {
      "", open_records, {"path", "validation_path", "mean", "standardize", "resize", "task"}};
  return row;
}

const FormatRow& format_of(const DatasetOptions& options) {
  if (const FormatRow* const row = find_choice(formats(), options.format)) return *row;
  if (is_of_plugin(options.format) && options.open_records) return of_plugins();
  std::string names;
  for (const std::string& name : format_names()) names += name + ", ";
  refuse("dataset.format is \"" + options.format + "\"; expected " + names +
         "<plugin>.<format>, or dataset.name");
}

// Refuses keys that the format does not read, because whoever gives them expects an effect.
void check_unused(const DatasetOptions& o, std::set<std::string> uses) {
  if (!o.name.empty() || o.target_path.empty()) {  // a folder with all files, or one file
    uses.erase("validation_target_path");
    if (uses.contains("target_path")) uses.erase("validation_path");
    if (!o.name.empty()) uses.erase("target_path");
  }
  const auto refuse_if = [&](bool given, const char* key, const char* shown = nullptr) {
    if (!given || uses.contains(key)) return;
    refuse(std::string("dataset.") + (shown == nullptr ? key : shown) +
           " is given, but is not used with " +
           (o.name.empty() ? "format " + o.format : "the data set " + o.name) + "; remove it");
  };
  refuse_if(!o.target_path.empty(), "target_path");
  refuse_if(!o.validation_path.empty(), "validation_path");
  refuse_if(!o.validation_target_path.empty(), "validation_target_path");
  refuse_if(!o.features.empty(), "features");
  refuse_if(!o.target.empty(), "target");
  refuse_if(o.header.has_value(), "header");
  refuse_if(!o.inputs.empty(), "input", "input (a table [[dataset.input]])");
  refuse_if(!columns_of(o.inputs).empty(), "columns", "input.columns");
  refuse_if(!o.path.empty(), "path");
  refuse_if(o.samples != 0, "samples");
  refuse_if(o.normalises(), "mean", "mean, dataset.std or dataset.standardize");
  refuse_if(o.standardize, "standardize");
  refuse_if(!o.resize.empty(), "resize");
  refuse_if(!o.classification, "task", "task = \"regression\"");
}

void split(DatasetPair& pair, double share) {
  if (pair.validation != nullptr) return;
  const int64_t training = training_samples(pair.train->size(), share);
  DatasetPair parts = split_at(std::move(pair.train), training);
  pair.train = std::move(parts.train);
  pair.validation = std::move(parts.validation);
}

void resize(DatasetPair& pair, const DatasetOptions& options) {
  for (auto* part : {&pair.train, &pair.validation}) {
    if (!*part) continue;
    *part =
        resized(std::move(*part), {options.resize[0], options.resize[1]}, options.resize_shorter);
  }
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
}

}  // namespace

std::vector<std::string> format_names() { return names_of_rows(formats()); }

bool is_table(const std::string& format) {
  const FormatRow* const row = find_choice(formats(), format);
  return row != nullptr && row->uses.contains("features");
}

DatasetPair open_dataset(const DatasetOptions& options) {
  check_resize(options);
  check_sources(options.inputs);
  DatasetOptions resolved = options.name.empty() ? options : resolve_well_known(options);
  const FormatRow& format = format_of(resolved);
  check_unused(resolved, format.uses);
  if (resolved.preparation != nullptr && resolved.classes == 0)
    resolved.classes = resolved.preparation->classes;
  if (format.uses.contains("path")) need(resolved.path, "path", resolved.format);
  DatasetPair pair = format.open(resolved);
  split(pair, resolved.validation_split);
  if (!resolved.resize.empty() && !format.resizes) resize(pair, resolved);
  complete(pair.preparation, resolved, pair.train->spec());
  return pair;
}

}  // namespace runtime::data
