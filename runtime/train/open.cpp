#include "runtime/train/open.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "runtime/error.h"
#include "runtime/system/control_groups.h"
#include "runtime/train/plugin_records.h"

namespace runtime::train {

namespace {

// Resolves a path of [dataset]. Paths beside the configuration file are absolute already; a
// relative one is searched in the working folder, then in the folders of the search path.
std::string find_data(const std::string& key, const std::string& path,
                      const std::vector<std::string>& search_path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // a folder that cannot be read counts as one without the file
  if (path.empty() || fs::path(path).is_absolute() || fs::exists(path, ignored)) return path;
  std::string tried = "the folder of the configuration file, " + fs::current_path(ignored).string();
  for (const std::string& folder : search_path) {
    const fs::path candidate = fs::path(folder) / path;
    if (fs::exists(candidate, ignored)) return candidate.string();
    tried += ", " + folder;
  }
  throw DataError("dataset." + key + " = \"" + path + "\": found in none of " + tried +
                  "; correct the path, or name the folder that holds it in RUNTIME_DATA_PATH");
}

// Decoding images takes long enough for several threads; other samples are only copied.
int workers(const config::Config& config) {
  constexpr int kMost = 8;
  if (config.dataset.workers > 0) return config.dataset.workers;
  if (config.dataset.format != "images") return 1;
  return std::min(threads_of_rank(config), kMost);
}

}  // namespace

int threads_of_rank(const config::Config& config) {
  return std::max(1,
                  config.device.threads > 0 ? config.device.threads : system::usable_processors());
}

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
  o.target = d.target;
  o.classification = d.task != "regression";
  o.next_token = d.task == "next_token";
  o.tokenizer = d.tokenizer;
  if (o.tokenizer.empty() && data::is_text(o) && o.format != "tokens") o.tokenizer = "char";
  o.tokenizer_path = find_data("tokenizer_path", d.tokenizer_path, o.search_path);
  o.token_type = d.token_type;
  o.stride = d.stride;
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
void check_targets(const data::Dataset& part, const std::string& loss) {
  const bool of_one_choice = loss == "kl_divergence";
  if (!of_one_choice && loss != "binary_cross_entropy") return;
  std::vector<float> targets(static_cast<size_t>(part.spec().targets));
  for (int64_t i = 0; i < part.size(); ++i) {
    part.read_targets(i, targets.data());
    const std::string fault = fault_of_targets(targets, of_one_choice);
    if (fault.empty()) continue;
    throw DataError("training.loss = \"" + loss + "\", " + part.description() + ": sample " +
                    std::to_string(i) + ": " + fault +
                    "; change the data, or use training.loss = \"mean_squared_error\"");
  }
}

}  // namespace

data::DatasetPair open_data(const config::Config& config, const char* search_path,
                            const plugins::host::Registry* registry) {
  data::DatasetOptions options = data_options(config, search_path);
  if (registry != nullptr) {
    options.open_records = [&](const data::DatasetOptions& resolved) {
      return open_plugin_records(config, *registry, resolved);
    };
  }
  data::DatasetPair pair = data::open_dataset(options);
  for (const auto& part : {pair.train, pair.validation}) {
    if (part != nullptr) check_targets(*part, config.training.loss);
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

exec::CompileOptions compile_options(const config::Config& config,
                                     std::shared_ptr<plugins::host::Device> fallback) {
  exec::CompileOptions o;
  o.target.tune = config.device.tune == "off"    ? exec::Tune::kOff
                  : config.device.tune == "full" ? exec::Tune::kFull
                                                 : exec::Tune::kQuick;
  o.target.deterministic = config.debug.deterministic;
  o.target.cache_folder = exec::default_cache_folder();
  o.target.fallback = std::move(fallback);
  o.record = config.device.graph_capture;
  return o;
}

data::LabelWeights label_weights(const config::Config& config) {
  return {config.training.class_weights, static_cast<int32_t>(config.training.ignore_label)};
}

data::LoaderOptions train_loader_options(const config::Config& config,
                                         const parallel::BatchSplit& split) {
  data::LoaderOptions o;
  o.label_weights = label_weights(config);
  o.batch_size = config.training.global_batch_size;
  o.shuffle = config.dataset.shuffle;
  o.seed = config.debug.seed;
  o.last_batch = config.dataset.last_batch == "drop"  ? data::LastBatch::kDrop
                 : config.dataset.last_batch == "pad" ? data::LastBatch::kPad
                                                      : data::LastBatch::kKeep;
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
  o.last_batch = data::LastBatch::kKeep;  // so that each sample counts once
  o.first_batch = rank;
  o.batch_stride = world_size;
  return o;
}

}  // namespace runtime::train
