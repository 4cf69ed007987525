#include "runtime/train/open.h"

#include <algorithm>
#include <filesystem>

#include "plugins/host/error.h"
#include "plugins/host/options.h"
#include "runtime/error.h"

namespace runtime::train {

namespace {

using plugins::host::DeviceInfo;
using plugins::host::PluginDescription;
using plugins::host::Registry;

// Fastest first. Plugins that are not named here come last, in the order in which they were found.
constexpr const char* kPreference[] = {"cuda", "rocm", "cpu", "reference"};

std::vector<const PluginDescription*> by_preference(const Registry& registry) {
  std::vector<const PluginDescription*> order;
  for (const PluginDescription& p : registry.plugins()) {
    if (p.offers(RT_INTERFACE_DEVICE)) order.push_back(&p);
  }
  const auto place = [](const PluginDescription* p) {
    return std::find(std::begin(kPreference), std::end(kPreference), p->name);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto* a, const auto* b) { return place(a) < place(b); });
  return order;
}

constexpr int kOwnIndex = -1;

// The index of a device; for kOwnIndex the ranks of a machine take the usable devices in turn.
int resolve_index(const std::vector<DeviceInfo>& devices, int index, int local_rank) {
  if (index != kOwnIndex) return index;
  std::vector<int> usable;
  for (const DeviceInfo& device : devices) {
    if (device.usable()) usable.push_back(device.index);
  }
  return usable.empty() ? 0 : usable[local_rank % usable.size()];
}

// A plugin and the index of one of its devices.
using Choice = std::pair<const PluginDescription*, int>;

Choice choose_backend(const Registry& registry, int wanted, int local_rank, std::string* choice) {
  std::string passed;
  for (const PluginDescription* plugin : by_preference(registry)) {
    const std::vector<DeviceInfo>& devices = plugin->devices;
    const int index = resolve_index(devices, wanted, local_rank);
    if (index < static_cast<int>(devices.size()) && devices[index].usable()) {
      if (choice != nullptr)
        *choice = "device.backend = \"auto\" takes " + devices[index].id() + passed;
      return {plugin, index};
    }
    const std::string reason =
        devices.empty()
            ? "no device"
            : devices[std::min<size_t>(index, devices.size() - 1)].properties.unusable_reason;
    passed += "; not " + plugin->name + ": " + (reason.empty() ? "no such index" : reason);
  }
  for (const auto& rejection : registry.rejections())
    passed += "; rejected: " + rejection.path.string() + ": " + rejection.reason;
  throw plugins::host::Error(RT_ERROR_UNAVAILABLE,
                             "device.backend = \"auto\": no plugin has a usable device" + passed +
                                 "; `runtime devices` lists what was found and why not");
}

void check_options(const PluginDescription& plugin, const plugins::host::Options& options) {
  const std::string fault =
      plugins::host::fault_of(options, plugin.options, "device." + plugin.name);
  if (!fault.empty()) throw ConfigurationError(fault);
}

// The item of a list for a rank on this machine.
template <class Item>
const Item& item_of_rank(const std::vector<Item>& items, int local_rank, const char* key) {
  if (local_rank < static_cast<int>(items.size())) return items[local_rank];
  throw ConfigurationError(std::string(key) + " has " + std::to_string(items.size()) +
                           " items, but there is a rank " + std::to_string(local_rank) +
                           " on this machine; give one for each rank, or start fewer ranks");
}

// The backend and the index of a rank's device.
std::pair<std::string, int> device_of_rank(const config::Config& config, int local_rank) {
  const config::Device& device = config.device;
  if (config.launch.devices.empty()) {
    if (device.index.size() <= 1)
      return {device.backend, device.index.empty() ? kOwnIndex : static_cast<int>(device.index[0])};
    return {device.backend,
            static_cast<int>(item_of_rank(device.index, local_rank, "device.index"))};
  }
  const std::string& text = item_of_rank(config.launch.devices, local_rank, "launch.devices");
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {text, 0};
  const std::string digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 4 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    throw ConfigurationError("launch.devices: \"" + text +
                             "\" is no device; expected backend or backend:index, like \"cpu:0\"");
  }
  return {text.substr(0, colon), std::stoi(digits)};
}

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

}  // namespace

plugins::host::SearchPath plugin_search_path(const config::Config& config) {
  return plugins::host::SearchPath::standard(
      {config.plugins.path.begin(), config.plugins.path.end()});
}

namespace {

Choice find_device(const config::Config& config, const Registry& registry, int local_rank,
                   std::string* choice) {
  for (const std::string& name : config.plugins.require) registry.require(name);
  const auto [backend, index] = device_of_rank(config, local_rank);
  if (backend == "auto") return choose_backend(registry, index, local_rank, choice);
  const PluginDescription& plugin = registry.require(backend);
  return {&plugin, resolve_index(plugin.devices, index, local_rank)};
}

}  // namespace

DeviceInfo choose_device(const config::Config& config, const Registry& registry, int local_rank,
                         std::string* choice) {
  const auto [plugin, index] = find_device(config, registry, local_rank, choice);
  if (index < static_cast<int>(plugin->devices.size())) return plugin->devices[index];
  return {plugin->name, index, {}};
}

std::shared_ptr<plugins::host::Device> open_device(const config::Config& config,
                                                   const Registry& registry, int local_rank,
                                                   std::string* choice) {
  const auto [plugin, index] = find_device(config, registry, local_rank, choice);
  plugins::host::DeviceOptions options;
  options.threads = config.device.threads;
  if (config.debug.deterministic) options.threads = std::max(1, options.threads);
  if (const auto it = config.device.options.find(plugin->name); it != config.device.options.end())
    options.options = it->second;
  check_options(*plugin, options.options);
  return plugins::host::Device::open(registry.open(plugin->name), index, options);
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

data::DatasetPair open_data(const config::Config& config, const char* search_path) {
  return data::open_dataset(data_options(config, search_path));
}

exec::CompileOptions compile_options(const config::Config& config) {
  exec::CompileOptions o;
  o.target.tune = config.device.tune == "off"    ? exec::Tune::kOff
                  : config.device.tune == "full" ? exec::Tune::kFull
                                                 : exec::Tune::kQuick;
  o.target.deterministic = config.debug.deterministic;
  o.target.cache_folder = exec::default_cache_folder();
  o.record = config.device.graph_capture;
  return o;
}

data::LoaderOptions train_loader_options(const config::Config& config,
                                         const parallel::BatchSplit& split) {
  data::LoaderOptions o;
  o.batch_size = config.training.global_batch_size;
  o.shuffle = config.dataset.shuffle;
  o.seed = config.debug.seed;
  o.last_batch = config.dataset.last_batch == "drop"  ? data::LastBatch::kDrop
                 : config.dataset.last_batch == "pad" ? data::LastBatch::kPad
                                                      : data::LastBatch::kKeep;
  o.prefetch = config.dataset.prefetch;
  o.augmentation = {config.dataset.random_crop, config.dataset.random_flip};
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
