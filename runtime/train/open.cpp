// Translates configuration into options of data sets, loaders and programs, and checks targets.
#include "runtime/train/open.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "runtime/config/choices.h"
#include "runtime/data/safetensors.h"
#include "runtime/error.h"
#include "runtime/row_of.h"
#include "runtime/system/control_groups.h"
#include "runtime/train/options.h"
#include "runtime/train/plugin_records.h"
#include "runtime/train/weights.h"

namespace runtime::train {

namespace {

// Resolves a path of [dataset]. Paths beside the configuration file are absolute already; a
// relative one is searched in the working folder, then in the folders of the search path.
std::string find_data(const std::string& key, const std::string& path,
                      const std::vector<std::string>& search_path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // a folder that cannot be read counts as one without the file
  if (path.empty() || fs::path(path).is_absolute() || fs::exists(path, ignored)) return path;
  std::string tried = "the configuration file's, " + fs::current_path(ignored).string();
  for (const std::string& folder : search_path) {
    const fs::path candidate = fs::path(folder) / path;
    if (fs::exists(candidate, ignored)) return candidate.string();
    tried += ", " + folder;
  }
  throw DataError("dataset." + key + " = \"" + path +
                  "\": found in none of these folders: " + tried +
                  "; correct the path, or name the folder that holds it in RUNTIME_DATA_PATH");
}

// Decoding images takes long enough for several threads; other samples are only copied.
int workers(const config::Config& config) {
  constexpr int kMost = 8;
  if (config.dataset.workers > 0) return config.dataset.workers;
  const config::Format* const format = config::format_of(config.dataset);
  if (format == nullptr || !format->decodes) return 1;
  return std::min(threads_of_rank(config), kMost);
}

}  // namespace

data::DatasetOptions data_options(const config::Config& config, const char* search_path) {
  const config::Dataset& d = config.dataset;
  data::DatasetOptions o;
  o.name = d.name;
  o.format = d.format;
  o.search_path = data::split_search_path(search_path);
  o.path = find_data("path", d.path, o.search_path);
  o.target_path = find_data("target_path", d.target_path, o.search_path);
  o.validation_path = find_data("validation_path", d.validation_path, o.search_path);
  o.validation_target_path =
      find_data("validation_target_path", d.validation_target_path, o.search_path);
  o.features = d.features;
  o.texts = d.texts;
  o.target = d.target;
  o.header = row_of<std::optional<bool>>("dataset.header", d.header,
                                         {{"auto", std::nullopt}, {"yes", true}, {"no", false}});
  o.classification = !config::is_regression(d);
  o.next_token = config::task_of(d).language;
  o.masked_token = config::task_of(d).masked;
  o.mask_share = d.mask_share;
  o.mask_token = d.mask_token;
  o.tokenizer = d.tokenizer;
  if (const auto* format = config::format_of(d); format != nullptr && o.tokenizer.empty())
    o.tokenizer = format->tokenizer;
  o.tokenizer_path = find_data("tokenizer_path", d.tokenizer_path, o.search_path);
  o.token_type = d.token_type;
  o.replaces_invalid_utf8 =
      row_of<bool>("dataset.invalid_utf8", d.invalid_utf8, {{"refuse", false}, {"replace", true}});
  o.stride = d.stride;
  o.separator = d.separator;
  for (const config::DatasetInput& input : d.inputs) {
    const bool integers =
        row_of<bool>("dataset.input.type", input.type, {{"float32", false}, {"int32", true}});
    o.inputs.push_back({input.name, find_data("input.path", input.path, o.search_path),
                        find_data("input.validation_path", input.validation_path, o.search_path),
                        input.columns, integers});
  }
  o.validation_split = d.validation_split;
  o.samples = d.samples;
  o.classes = d.classes;
  // model.input is [channels, height, width]; samples are [height, width, channels].
  o.shape = config.model.input;
  if (o.shape.size() == 3) o.shape = {o.shape[1], o.shape[2], o.shape[0]};
  o.resize = d.resize;
  o.resize_shorter = d.resize_shorter;
  o.mean = d.mean;
  o.std = d.std;
  o.standardize = d.standardize;
  o.seed = config.debug.seed;
  return o;
}

namespace {

constexpr double kNearlyOne = 1e-3;  // how far the sum of rounded probabilities may be from 1

// What is wrong with the targets of a sample for a loss that compares probabilities; "": nothing.
std::string fault_of_targets(const std::vector<float>& targets, bool of_one_choice) {
  double sum = 0;
  for (size_t i = 0; i < targets.size(); ++i) {
    sum += targets[i];
    if (targets[i] >= 0 && targets[i] <= 1) continue;
    return "target " + std::to_string(i) + " is " + std::to_string(targets[i]) +
           "; expected a probability, from 0 to 1";
  }
  if (!of_one_choice || std::abs(sum - 1) <= kNearlyOne) return "";
  return "its targets sum to " + std::to_string(sum) + "; expected probabilities that sum to 1";
}

// Throws DataError if the loss has no meaning for a target.
void check_targets(const data::Dataset& part, const std::string& name) {
  const config::Loss& loss = config::loss_of(name, part.spec().classes > 0);
  const bool of_one_choice = loss.targets == config::Targets::kOneChoice;
  if (!of_one_choice && loss.targets != config::Targets::kProbabilities) return;
  std::vector<float> targets(static_cast<size_t>(part.spec().targets));
  for (int64_t i = 0; i < part.size(); ++i) {
    part.read_targets(i, targets.data());
    const std::string fault = fault_of_targets(targets, of_one_choice);
    if (fault.empty()) continue;
    throw DataError("training.loss = \"" + name + "\", " + part.description() + ": sample " +
                    std::to_string(i) + ": " + fault +
                    "; change the data, or use training.loss = \"mean_squared_error\"");
  }
}

// Returns how the data were prepared that the weights were trained on; null: the file does not say.
std::shared_ptr<const data::Preparation> preparation_of(const config::Dataset& dataset,
                                                        const std::string& weights) {
  if (weights.empty()) return nullptr;
  const auto metadata = data::read_safetensors_metadata(weights);
  if (const auto found = metadata.find(kPreparation); found != metadata.end())
    return std::make_shared<data::Preparation>(data::parse_preparation(found->second, weights));
  if (!dataset.standardize) return nullptr;
  throw DataError(weights +
                  ": dataset.standardize is true, but the file has no means and deviations of the "
                  "training data: an earlier version or another program has written it; expected "
                  "them in its metadata: give them as dataset.mean and dataset.std instead of "
                  "dataset.standardize, or let `runtime train CONFIG --resume auto` save the run's "
                  "weights again");
}

}  // namespace

data::DatasetPair open_data(const config::Config& config, const char* search_path,
                            const plugins::host::Registry* registry, const DataUse& use) {
  data::DatasetOptions options = data_options(config, search_path);
  options.preparation = preparation_of(config.dataset, use.weights);
  options.needs_targets = use.needs_targets;
  options.shared = use.shared;
  if (registry != nullptr) {
    options.open_records = [&](const data::DatasetOptions& resolved) {
      return open_plugin_records(config, *registry, resolved);
    };
  }
  data::DatasetPair pair = data::open_dataset(options);
  if (options.preparation != nullptr)
    data::check_same(*options.preparation, pair.preparation, use.weights);
  for (const auto& part : {pair.train, pair.validation}) {
    if (part != nullptr && pair.labelled) check_targets(*part, config.training.loss);
  }
  return pair;
}

std::string batch_advice(const config::Config& config, const data::Dataset& train) {
  const int64_t batch = config.training.global_batch_size;
  if (batch <= train.size()) return "";
  const std::string size = std::to_string(train.size());
  return "training.global_batch_size = " + std::to_string(batch) + ", but there are " + size +
         " samples to train on, so that an epoch is one step with " + size +
         " of them; expected at most " + size + ": set a smaller batch, or use more data";
}

std::string target_advice(const config::Config& config, const data::Dataset& train) {
  constexpr double kLargest = 100, kSmallest = 0.01;
  constexpr int64_t kMost = 1000;  // samples that are looked at, evenly spaced
  const int64_t each = train.spec().targets, count = std::min(train.size(), kMost);
  std::vector<float> targets(static_cast<size_t>(each));
  double squares = 0;
  for (int64_t i = 0; i < count && each > 0; ++i) {
    train.read_targets(i * train.size() / count, targets.data());
    for (const float target : targets) squares += static_cast<double>(target) * target;
  }
  const double size = each > 0 ? std::sqrt(squares / static_cast<double>(count * each)) : 0;
  if (size == 0 || (size >= kSmallest && size <= kLargest)) return "";
  std::ostringstream words;
  words << "the targets are about " << size << " (root of the mean square), far from 1, so that a "
        << "loss begins at about " << size * size << " and gradients are as far off; expected "
        << kSmallest << " to " << kLargest << ": divide the column of dataset.target"
        << (config.dataset.target.empty() ? "" : " = \"" + config.dataset.target + "\"")
        << " by a constant (predictions then have its unit), or take its logarithm";
  return words.str();
}

data::LoaderOptions train_loader_options(const config::Config& config,
                                         const parallel::BatchSplit& split) {
  data::LoaderOptions o;
  o.label_weights = label_weights(config);
  o.batch_size = config.training.global_batch_size;
  o.shuffle = config.dataset.shuffle;
  o.seed = config.debug.seed;
  o.last_batch = row_of<data::LastBatch>("dataset.last_batch", config.dataset.last_batch,
                                         {{"drop", data::LastBatch::kDrop},
                                          {"pad", data::LastBatch::kPad},
                                          {"keep", data::LastBatch::kKeep}});
  o.prefetch = config.dataset.prefetch;
  o.workers = workers(config);
  o.augmentation = {config.dataset.random_crop, config.dataset.random_flip,
                    config.dataset.random_resized_crop};
  o.part = [split](int64_t rows, int) { return parallel::rows_of_rank(rows, split); };
  return o;
}

data::LoaderOptions validation_loader_options(const config::Config& config, int rank,
                                              int world_size) {
  data::LoaderOptions o = train_loader_options(config);
  o.part = nullptr;
  o.augmentation = {};
  o.shuffle = false;
  o.same_masks = true;                    // so that validations can be compared
  o.last_batch = data::LastBatch::kKeep;  // so that each sample counts once
  o.first_batch = rank;
  o.batch_stride = world_size;
  return o;
}

}  // namespace runtime::train
