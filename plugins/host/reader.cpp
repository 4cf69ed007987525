// Opens data sets of a plugin, and checks formats, shapes and the number of samples that were read.
#include "plugins/host/reader.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "plugins/host/call.h"
#include "plugins/host/error.h"
#include "plugins/host/limits.h"
#include "plugins/host/operation_set.h"
#include "plugins/host/printable.h"
#include "plugins/host/release.h"

namespace plugins::host {
namespace {

const rt_reader_api& reader_of(const Plugin& plugin) {
  if (const rt_reader_api* api = plugin.reader_api()) return *api;
  throw Error(RT_ERROR_UNSUPPORTED, "plugin '" + plugin.name() + "' reads no data sets");
}

std::vector<Plugin::OptionSpec> options_of(const rt_reader_format& format, const std::string& who) {
  check_count(format.option_count, kMaxOptions, who + ": options");
  std::vector<Plugin::OptionSpec> options;
  for (uint32_t i = 0; i < format.option_count && format.options != nullptr; ++i)
    options.push_back(copy_option(format.options[i], who));
  return options;
}

ReaderFormat checked_format(const rt_reader_format* format, const std::string& who) {
  if (format == nullptr || format->size < RT_READER_FORMAT_SIZE_V1 || format->name == nullptr ||
      format->description == nullptr) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                who +
                    ": the description of a format is too short or has no text; expected an "
                    "rt_reader_format of at least " +
                    std::to_string(RT_READER_FORMAT_SIZE_V1) +
                    " bytes with a name and a description; the plugin has to be corrected");
  }
  const std::string name = checked_text(format->name, kMaxTextLength, who + ": name of a format");
  check_name(name, who + ": a format");
  const std::string of_format = who + ": format '" + name + "'";
  return {name, checked_text(format->description, kMaxTextLength, of_format), format->flags,
          options_of(*format, of_format)};
}

rt_dataset_request c_request(const ReaderRequest& request, const COptions& options) {
  rt_dataset_request c{};
  c.size = sizeof(c);
  c.split = request.split;
  c.path = request.path.c_str();
  c.target = request.target;
  c.rank = static_cast<int32_t>(std::min<std::size_t>(request.shape.size(), RT_MAX_RANK));
  std::copy_n(request.shape.begin(), c.rank, c.shape);
  c.options = options.data();
  c.option_count = options.size();
  return c;
}

ReaderInput checked_input(const rt_sample_input* input, const std::string& who) {
  if (input == nullptr || input->size < RT_SAMPLE_INPUT_SIZE_V1 || input->name == nullptr) {
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                who +
                    ": the description of an input is too short or has no name; expected an "
                    "rt_sample_input of at least " +
                    std::to_string(RT_SAMPLE_INPUT_SIZE_V1) +
                    " bytes; the plugin has to be corrected");
  }
  const std::string name = checked_text(input->name, kMaxTextLength, who + ": name of an input");
  check_name(name, who + ": an input");
  check_sample_input(*input, who + ": input '" + name + "'");
  return {
      name, input->dtype, input->least, input->most, {input->shape, input->shape + input->rank}};
}

std::vector<ReaderInput> checked_inputs(const rt_dataset_info& info, const std::string& who) {
  check_count(info.inputs == nullptr ? 0 : info.input_count, kMaxSampleInputs, who + ": inputs");
  std::vector<ReaderInput> inputs;
  for (uint32_t i = 0; i < info.input_count && info.inputs != nullptr; ++i) {
    inputs.push_back(checked_input(info.inputs[i], who));
    const auto same = [&](const ReaderInput& other) { return other.name == inputs.back().name; };
    if (std::none_of(inputs.begin(), inputs.end() - 1, same)) continue;
    throw Error(RT_ERROR_INVALID_ARGUMENT, who + ": there are two inputs '" + inputs.back().name +
                                               "'; the plugin has to be corrected");
  }
  return inputs;
}

}  // namespace

uint64_t ReaderInput::bytes() const {
  uint64_t numbers = 1;
  for (const int64_t dim : shape) numbers *= static_cast<uint64_t>(dim);
  return numbers * sizeof(float);  // int32 has as many
}

std::vector<ReaderFormat> list_formats(const Plugin& plugin) {
  if (plugin.reader_api() == nullptr) return {};
  const std::string who = plugin.name() + ": formats";
  uint32_t count = 0;
  const rt_reader_format* const* formats = nullptr;
  call([&] { return plugin.name() + ": formats"; },
       [&](rt_error*) {
         formats = plugin.reader_api()->formats(plugin.plain_self(), &count);
         return RT_OK;
       });
  check_count(formats == nullptr ? 0 : count, kMaxFormats, who);
  std::vector<ReaderFormat> list;
  std::set<std::string> names;
  for (uint32_t i = 0; i < count && formats != nullptr; ++i) {
    list.push_back(checked_format(formats[i], who));
    if (names.insert(list.back().name).second) continue;
    throw Error(RT_ERROR_INVALID_ARGUMENT, who + ": there are two formats '" + list.back().name +
                                               "'; the plugin has to be corrected");
  }
  return list;
}

ReaderDataset::ReaderDataset(std::shared_ptr<Plugin> plugin, std::string what,
                             std::shared_ptr<const ReaderDataset> training, rt_dataset* dataset)
    : plugin_(std::move(plugin)),
      what_(std::move(what)),
      training_(std::move(training)),
      dataset_(dataset) {}

ReaderDataset::~ReaderDataset() {
  call_release(*plugin_, "rt_reader_api.close", [&] { plugin_->reader_api()->close(dataset_); });
}

std::shared_ptr<const ReaderDataset> ReaderDataset::open(const std::shared_ptr<Plugin>& plugin,
                                                         const std::string& format,
                                                         const ReaderRequest& request) {
  const rt_reader_api& api = reader_of(*plugin);
  const std::string what = plugin->name() + "." + format + ", " + printable(request.path);
  const COptions options(request.options);
  rt_dataset_request c = c_request(request, options);
  if (request.training != nullptr) c.training = request.training->dataset_;
  rt_dataset* opened = nullptr;
  call([&] { return what + ": open"; },
       [&](rt_error* e) { return api.open(plugin->plain_self(), format.c_str(), &c, &opened, e); });
  if (opened == nullptr)
    throw Error(RT_ERROR_INTERNAL, what + ": open: answered RT_OK without a result");
  // From here on a refusal also closes the data set.
  std::shared_ptr<ReaderDataset> dataset(new ReaderDataset(plugin, what, request.training, opened));
  rt_dataset_info& info = dataset->info_;
  info.size = sizeof(info);
  call([&] { return what + ": info"; }, [&](rt_error* e) { return api.info(opened, &info, e); });
  info.size = sizeof(info);
  check_dataset(info, what + ": info");
  for (int32_t i = 0; i < info.rank; ++i) dataset->features_ *= info.shape[i];
  dataset->inputs_ = checked_inputs(info, what + ": info");
  return dataset;
}

uint64_t ReaderDataset::feature_bytes() const {
  const uint64_t size = info_.feature_dtype == RT_UINT8 ? 1 : sizeof(float);
  return static_cast<uint64_t>(features_) * size;
}

uint64_t ReaderDataset::target_bytes() const {
  return static_cast<uint64_t>(info_.target_count) * sizeof(float);  // int32 has as many
}

void ReaderDataset::read(std::span<const int64_t> indices, void* features, void* targets) const {
  rt_samples samples{};
  samples.indices = indices.data();
  samples.count = indices.size();
  samples.features = features;
  samples.feature_bytes = features == nullptr ? 0 : indices.size() * feature_bytes();
  samples.targets = targets;
  samples.target_bytes = targets == nullptr ? 0 : indices.size() * target_bytes();
  read(samples);
}

void ReaderDataset::read_input(std::span<const int64_t> indices, std::size_t input,
                               void* out) const {
  std::array<void*, kMaxSampleInputs> arrays{};
  std::array<uint64_t, kMaxSampleInputs> bytes{};
  arrays[input] = out;
  bytes[input] = indices.size() * inputs_[input].bytes();
  rt_samples samples{};
  samples.indices = indices.data();
  samples.count = indices.size();
  samples.inputs = arrays.data();
  samples.input_bytes = bytes.data();
  samples.input_count = static_cast<uint32_t>(inputs_.size());
  read(samples);
}

void ReaderDataset::read(rt_samples& samples) const {
  samples.size = sizeof(samples);
  uint64_t filled = 0;
  const auto what = [&] { return what_ + ": read " + std::to_string(samples.count) + " samples"; };
  call(what,
       [&](rt_error* e) { return plugin_->reader_api()->read(dataset_, &samples, &filled, e); });
  if (filled == samples.count) return;
  throw Error(RT_ERROR_INTERNAL, what() + ": the plugin answers that it has read " +
                                     std::to_string(filled) +
                                     ", expected all of them; the plugin "
                                     "has to be corrected");
}

}  // namespace plugins::host
