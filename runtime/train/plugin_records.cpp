// Opens a format of a plugin, and checks the samples that it gives.
#include "runtime/train/plugin_records.h"

#include <utility>

#include "plugins/host/error.h"
#include "plugins/host/nearest.h"
#include "plugins/host/options.h"
#include "plugins/host/reader.h"

namespace runtime::train {
namespace {

using plugins::host::ReaderDataset;
using plugins::host::ReaderFormat;

// Calls `body`; an Error of the plugin becomes one of the data.
template <class Body>
auto reading(const std::string& plugin, Body&& body) {
  try {
    return body();
  } catch (const plugins::host::Error& error) {
    if (error.code() == RT_ERROR_ABORTED) throw ReadingStopped(error.what());
    throw DataError(std::string(error.what()) + "; correct the data, or [dataset] and [dataset." +
                    plugin + "]");
  }
}

class PluginRecords final : public data::Records {
 public:
  PluginRecords(std::string plugin, std::shared_ptr<const ReaderDataset> dataset,
                const std::string& path)
      : plugin_(std::move(plugin)), dataset_(std::move(dataset)) {
    const rt_dataset_info& info = dataset_->info();
    spec_.title = info.description[0] != '\0' ? info.description : path;
    spec_.shape.assign(info.shape, info.shape + info.rank);
    spec_.bytes = info.feature_dtype == RT_UINT8;
    spec_.samples = info.samples;
    spec_.classes = info.classes;
    spec_.targets = info.target_count;
    for (const plugins::host::ReaderInput& input : dataset_->inputs()) {
      spec_.inputs.push_back(
          {input.name, input.shape, input.dtype == RT_INT32, input.least, input.most});
    }
  }
  const data::RecordSpec& spec() const override { return spec_; }
  void read(std::span<const int64_t> indices, void* features, void* targets) const override {
    reading(plugin_, [&] { dataset_->read(indices, features, targets); });
  }
  void read_input(std::span<const int64_t> indices, std::size_t input, void* out) const override {
    reading(plugin_, [&] { dataset_->read_input(indices, input, out); });
  }

 private:
  std::string plugin_;
  std::shared_ptr<const ReaderDataset> dataset_;
  data::RecordSpec spec_;
};

// The plugin and the name of a format, "<plugin>.<name>".
std::pair<std::string, std::string> parts_of(const std::string& format) {
  const size_t dot = format.find('.');
  return {format.substr(0, dot), format.substr(dot + 1)};
}

const ReaderFormat& find_format(const plugins::host::PluginDescription& plugin,
                                const std::string& name) {
  std::vector<std::string> names;
  for (const ReaderFormat& format : plugin.formats) {
    if (format.name == name) return format;
    names.push_back(plugin.name + "." + format.name);
  }
  if (names.empty()) {
    throw ConfigurationError("dataset.format = \"" + plugin.name + "." + name + "\": the plugin " +
                             plugin.name + " reads no data sets; `runtime plugins list` lists all");
  }
  throw ConfigurationError("dataset.format = \"" + plugin.name + "." + name +
                           "\": the plugin has no such format" +
                           plugins::host::suggestion(plugin.name + "." + name, names));
}

// The options of [dataset.<plugin>], which the format must declare.
plugins::host::Options options_for(const config::Config& config, const std::string& plugin,
                                   const ReaderFormat& format) {
  const auto given = config.dataset.options.find(plugin);
  if (given == config.dataset.options.end()) return {};
  const std::string fault =
      plugins::host::fault_of(given->second, format.options, "dataset." + plugin);
  if (!fault.empty()) throw ConfigurationError(fault);
  return given->second;
}

// Opens the validation samples that the path of the training samples holds; nullptr: it has none.
std::shared_ptr<const ReaderDataset> open_second_split(
    const std::shared_ptr<plugins::host::Plugin>& plugin, const std::string& format,
    const plugins::host::ReaderRequest& request) {
  try {
    return ReaderDataset::open(plugin, format, request);
  } catch (const plugins::host::Error& error) {
    if (error.code() == RT_ERROR_UNAVAILABLE) return nullptr;
    throw;
  }
}

}  // namespace

void check_plugin_format(const config::Config& config, const plugins::host::Registry& registry) {
  if (!data::is_of_plugin(config.dataset.format)) return;
  const auto [plugin, name] = parts_of(config.dataset.format);
  options_for(config, plugin, find_format(registry.require(plugin), name));
}

data::RecordsPair open_plugin_records(const config::Config& config,
                                      const plugins::host::Registry& registry,
                                      const data::DatasetOptions& options) {
  const std::pair<std::string, std::string> parts = parts_of(options.format);
  const std::string& name = parts.first;
  const ReaderFormat& format = find_format(registry.require(name), parts.second);
  plugins::host::ReaderRequest request;
  request.options = options_for(config, name, format);
  const auto plugin = registry.open(name);
  request.path = options.path;
  request.target = options.classification ? RT_TARGET_LABELS : RT_TARGET_NUMBERS;
  request.shape = options.shape;
  return reading(name, [&] {
    const auto train = ReaderDataset::open(plugin, format.name, request);
    const auto records = [&](std::shared_ptr<const ReaderDataset> dataset) {
      return std::make_shared<PluginRecords>(name, std::move(dataset), request.path);
    };
    data::RecordsPair pair{records(train), nullptr};
    request.split = RT_SPLIT_VALIDATION;
    request.training = train;
    if (!options.validation_path.empty()) {
      request.path = options.validation_path;
      pair.validation = records(ReaderDataset::open(plugin, format.name, request));
    } else if ((format.flags & RT_READER_BOTH_SPLITS) != 0 && options.validation_split == 0) {
      if (auto second = open_second_split(plugin, format.name, request))
        pair.validation = records(std::move(second));
    }
    return pair;
  });
}

}  // namespace runtime::train
