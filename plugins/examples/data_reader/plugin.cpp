// The entry and the reader table. Several instances may live in one process: keep state in the
// instance, not in globals.
#include "rt/sdk/plugin.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>

#include "libsvm.h"
#include "rt/sdk/host.h"

struct rt_dataset {
  libsvm::Samples samples;
  int32_t target;               // RT_TARGET_*
  std::vector<int64_t> shape;   // of a sample
  std::vector<float> classes;   // the labels in ascending order; class i is classes[i]
  std::vector<int32_t> labels;  // the class of each sample; empty for RT_TARGET_NUMBERS
};

namespace {

using rt::sdk::Error;
using rt::sdk::format;

struct Instance {
  const rt_host* host;
};

const rt_option_spec kFirstIndex = {sizeof(rt_option_spec), RT_OPTION_INTEGER, "first_index", "1",
                                    "index of the first feature: 1, or 0 for files of some tools"};
const rt_option_spec* const kOptions[] = {&kFirstIndex};
const rt_reader_format kText = {sizeof(rt_reader_format),
                                0,
                                "text",
                                "lines of `label index:value ...`; absent values are 0",
                                kOptions,
                                1,
                                0};
const rt_reader_format* const kFormats[] = {&kText};

const rt_reader_format* const* formats(void*, uint32_t* count) {
  *count = 1;
  return kFormats;
}

int64_t first_index(const rt_dataset_request& request) {
  int64_t value = 1;
  for (uint32_t i = 0; i < request.option_count; ++i) {
    const std::string text = request.options[i]->value;  // the host knows no other key
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && (value == 0 || value == 1))
      continue;
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("first_index is \"%s\"; expected 0 or 1", text.c_str()));
  }
  return value;
}

// Refuses a file that does not fit into memory, and stops when the user asks for it.
void check_process(const rt_host& host, const std::string& path, uint64_t bytes) {
  const auto* process = rt::sdk::host_interface<rt_host_process_api>(host);
  if (process == nullptr) return;  // an older host
  if (process->stop_requested != nullptr && process->stop_requested(host.context) != 0)
    throw Error(RT_ERROR_ABORTED, path + ": reading was stopped");
  if (process->available_memory == nullptr) return;
  const uint64_t available = process->available_memory(host.context);
  if (bytes <= available) return;
  throw Error(RT_ERROR_OUT_OF_MEMORY,
              format("%s: its samples take %llu MiB so far, and %llu MiB of memory are available",
                     path.c_str(), static_cast<unsigned long long>(bytes >> 20),
                     static_cast<unsigned long long>(available >> 20)));
}

// The labels of the samples in ascending order, each once.
std::vector<float> classes_of(const libsvm::Samples& samples) {
  std::vector<float> classes = samples.labels;
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  for (const float label : classes) {
    if (label == std::floor(label)) continue;
    throw Error(RT_ERROR_INVALID_ARGUMENT,
                format("%s: label %g is not a whole number; expected classes, or dataset.task = "
                       "\"regression\"",
                       samples.path.c_str(), static_cast<double>(label)));
  }
  return classes;
}

int32_t class_of(float label, const rt_dataset& data) {
  const auto found = std::lower_bound(data.classes.begin(), data.classes.end(), label);
  if (found != data.classes.end() && *found == label)
    return static_cast<int32_t>(found - data.classes.begin());
  throw Error(RT_ERROR_INVALID_ARGUMENT,
              format("%s: label %g is none of the %zu classes of the training samples",
                     data.samples.path.c_str(), static_cast<double>(label), data.classes.size()));
}

std::unique_ptr<rt_dataset> open(const rt_host& host, const rt_dataset_request& request) {
  auto data = std::make_unique<rt_dataset>();
  data->target = request.target;
  data->shape.assign(request.shape, request.shape + request.rank);
  libsvm::Options options;
  options.first_index = first_index(request);
  options.features = request.rank > 0 ? 1 : 0;
  for (const int64_t dim : data->shape) options.features *= dim;
  options.check = [&](uint64_t bytes) { check_process(host, request.path, bytes); };
  data->samples = libsvm::read(request.path, options);
  if (data->shape.empty()) data->shape = {data->samples.features};
  if (request.target == RT_TARGET_NUMBERS) return data;
  data->classes =
      request.training != nullptr ? request.training->classes : classes_of(data->samples);
  for (const float label : data->samples.labels) data->labels.push_back(class_of(label, *data));
  return data;
}

rt_status open_dataset(void* self, const char*, const rt_dataset_request* request,
                       rt_dataset** dataset, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    *dataset =
        open(*rt::sdk::state_of<Instance>(self).host, rt::sdk::read_input(request)).release();
  });
}

rt_status info(const rt_dataset* dataset, rt_dataset_info* info, rt_error* error) {
  return rt::sdk::guard(error, [&] {
    rt_dataset_info answer{};
    answer.feature_dtype = RT_FLOAT32;
    answer.samples = dataset->samples.size();
    answer.target = dataset->target;
    answer.rank = static_cast<int32_t>(dataset->shape.size());
    std::copy(dataset->shape.begin(), dataset->shape.end(), answer.shape);
    if (dataset->target == RT_TARGET_LABELS)
      answer.classes = static_cast<int64_t>(dataset->classes.size());
    answer.target_count = 1;
    rt::sdk::copy_text(answer.description, dataset->samples.path);
    rt::sdk::write_output(info, answer);
  });
}

// Reads only immutable members, so any number of threads may call it.
rt_status read(const rt_dataset* dataset, const rt_samples* samples, uint64_t* filled,
               rt_error* error) {
  return rt::sdk::guard(error, [&] {
    const rt_samples wanted = rt::sdk::read_input(samples);
    auto* features = static_cast<float*>(wanted.features);
    auto* labels = static_cast<int32_t*>(wanted.targets);
    auto* numbers = static_cast<float*>(wanted.targets);
    for (uint64_t i = 0; i < wanted.count; ++i) {
      const int64_t index = wanted.indices[i];
      if (features != nullptr) {
        dataset->samples.write(index, features);
        features += dataset->samples.features;
      }
      if (wanted.targets == nullptr) continue;
      if (dataset->target == RT_TARGET_LABELS) {
        *labels++ = dataset->labels[static_cast<std::size_t>(index)];
      } else {
        *numbers++ = dataset->samples.labels[static_cast<std::size_t>(index)];
      }
    }
    *filled = wanted.count;
  });
}

void close_dataset(rt_dataset* dataset) { delete dataset; }

const rt_reader_api kReader = {
    sizeof(rt_reader_api), RT_READER_API_VERSION, formats, open_dataset, info, read, close_dataset};

rt::sdk::PluginDescription description() {
  return {.name = "libsvm",  // [a-z][a-z0-9_]*; the first word of dataset.format
          .vendor = "your name",
          .version = RUNTIME_PLUGIN_VERSION,
          .build_id = "libsvm-" RUNTIME_PLUGIN_VERSION,
          .description = "reads data sets in the format of LIBSVM",
          .reader = &kReader};
}

}  // namespace

extern "C" rt_status rt_plugin_entry(const rt_host* host, rt_negotiation* negotiation,
                                     const rt_plugin** plugin, rt_error* error) {
  return rt::sdk::make_plugin<Instance>(description, host, negotiation, plugin, error);
}
