// Checks of plugins that read data sets. Without a sample of the author's, only files that are no
// data set can be opened.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <thread>

#include "plugins/check/probing.h"
#include "plugins/check/temporary_folder.h"
#include "plugins/host/reader.h"

namespace plugins::check {

namespace {

namespace fs = std::filesystem;

using Dataset = std::shared_ptr<const host::ReaderDataset>;

constexpr int64_t kMostSamples = 256;  // that are read at once
constexpr size_t kGuard = 64;          // bytes behind what a reader may write

const rt_reader_api& reader_api(Context& context) {
  const rt_reader_api* const api = context.plugin()->reader_api();
  if (api == nullptr) throw Skip("the plugin reads no data sets (rt.reader)");
  return *api;
}

std::vector<host::ReaderFormat> formats_of(Context& context) {
  reader_api(context);
  return host::list_formats(*context.plugin());
}

const Setup::Sample& sample_of(Context& context) {
  reader_api(context);
  if (context.setup().sample.path.empty())
    throw Skip("needs a data set: give --sample FILE, and --format and --shape if it needs them");
  return context.setup().sample;
}

host::ReaderRequest request_for(Context& context, const std::string& path) {
  const Setup::Sample& sample = context.setup().sample;
  host::ReaderRequest request;
  request.path = path;
  request.shape = sample.shape.empty() ? std::vector<int64_t>{4} : sample.shape;
  request.target = sample.numbers ? RT_TARGET_NUMBERS : RT_TARGET_LABELS;
  request.options = context.setup().options;
  return request;
}

// The format that --format names, or the only one there is.
std::string format_of(Context& context) {
  const std::string& named = context.setup().sample.format;
  if (!named.empty()) return named;
  const auto formats = formats_of(context);
  if (formats.size() == 1) return formats[0].name;
  throw Skip(fmt::format("the plugin has {} formats: say --format NAME", formats.size()));
}

Dataset open_sample(Context& context, const std::shared_ptr<host::Plugin>& plugin) {
  const std::string path = sample_of(context).path;
  return host::ReaderDataset::open(plugin, format_of(context), request_for(context, path));
}

// The features and targets of some samples, as bytes.
struct Read {
  std::vector<std::byte> features, targets;
  bool operator==(const Read&) const = default;
};

Read read(const host::ReaderDataset& data, const std::vector<int64_t>& indices) {
  Read result;
  const auto room = [&](std::vector<std::byte>& bytes, uint64_t each) {
    bytes.assign(indices.size() * each + kGuard, std::byte{0xA5});
  };
  room(result.features, data.feature_bytes());
  room(result.targets, data.target_bytes());
  data.read(indices, result.features.data(), result.targets.data());
  for (auto* bytes : {&result.features, &result.targets}) {
    for (auto guard = bytes->end() - kGuard; guard != bytes->end(); ++guard)
      require(*guard == std::byte{0xA5}, "read wrote behind the memory that it was given");
    bytes->resize(bytes->size() - kGuard);
  }
  return result;
}

std::vector<int64_t> first_indices(const host::ReaderDataset& data) {
  std::vector<int64_t> indices(static_cast<size_t>(std::min(data.info().samples, kMostSamples)));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::string describes_its_formats(Context& context) {
  const auto formats = formats_of(context);
  require(!formats.empty(), "the plugin offers rt.reader and has no format");
  std::string text;
  for (const host::ReaderFormat& format : formats) {
    require(!format.description.empty(), "format '" + format.name + "' has no description");
    text += (text.empty() ? "" : ", ") + context.plugin()->name() + "." + format.name;
  }
  return text;
}

std::string names_a_file_that_is_absent(Context& context) {
  const TemporaryFolder folder;
  for (const host::ReaderFormat& format : formats_of(context)) {
    const std::string path = folder.path() / "no-such-file";
    try {
      host::ReaderDataset::open(context.plugin(), format.name, request_for(context, path));
    } catch (const host::Error& error) {
      const std::string prefix = context.plugin()->name() + "." + format.name + ", " + path;
      std::string words = error.what();
      if (words.starts_with(prefix)) words.erase(0, prefix.size());  // what the host has put there
      require(words.find("no-such-file") != std::string::npos,
              format.name +
                  ": the error for a file that does not exist does not name it: " + error.what());
      continue;
    }
    throw Fault(format.name + ": open answered RT_OK for a file that does not exist");
  }
  return "";
}

// Opens a file that is perhaps no data set: an error is as good as a data set that can be read.
// Returns whether it was read.
bool survives(Context& context, const std::string& format, const std::string& path) {
  try {
    const Dataset data =
        host::ReaderDataset::open(context.plugin(), format, request_for(context, path));
    read(*data, first_indices(*data));
    return true;
  } catch (const host::Error& error) {
    require(error.code() != RT_ERROR_INTERNAL,
            format + ": " + error.what() +
                "; expected another code than RT_ERROR_INTERNAL, because the file is at fault");
    return false;
  }
}

std::string survives_other_files(Context& context) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "empty") << "";
  std::string noise;
  for (uint32_t i = 0, x = 1; i < 5000; ++i, x = x * 1664525 + 1013904223)
    noise += static_cast<char>(x >> 24);
  std::ofstream(folder.path() / "noise", std::ios::binary) << noise;
  std::ofstream(folder.path() / "words") << "these are words\nand no numbers\n";
  fs::create_directory(folder.path() / "folder");
  int refused = 0;
  for (const host::ReaderFormat& format : formats_of(context)) {
    for (const char* name : {"empty", "noise", "words", "folder"})
      refused += survives(context, format.name, folder.path() / name) ? 0 : 1;
  }
  return fmt::format("{} refused", refused);
}

std::string survives_its_end_cut_off(Context& context) {
  const fs::path sample = sample_of(context).path;
  if (!fs::is_regular_file(sample)) throw Skip("the sample is no file");
  const TemporaryFolder folder;
  std::ifstream stream(sample, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  int refused = 0;
  for (const size_t kept : {bytes.size() / 2, bytes.size() - 1, size_t{1}}) {
    const fs::path cut = folder.path() / sample.filename();
    std::ofstream(cut, std::ios::binary) << bytes.substr(0, kept);
    refused += survives(context, format_of(context), cut) ? 0 : 1;
  }
  return fmt::format("{} of 3 refused", refused);
}

std::string refuses_wrong_options(Context& context) {
  const std::string path = sample_of(context).path, format = format_of(context);
  int tried = 0;
  for (const host::ReaderFormat& known : formats_of(context)) {
    for (const host::OptionSpec& option : known.options) {
      if (known.name != format || option.type == RT_OPTION_STRING) continue;
      host::ReaderRequest request = request_for(context, path);
      request.options[option.key] = option.type == RT_OPTION_BOOLEAN ? "maybe" : "twelve";
      ++tried;
      try {
        host::ReaderDataset::open(context.plugin(), format, request);
      } catch (const host::Error&) {
        continue;
      }
      throw Fault(fmt::format("open took \"{}\" for the option '{}'; expected a refusal",
                              request.options[option.key], option.key));
    }
  }
  if (tried == 0) throw Skip("the format has no option that is no text");
  return fmt::format("{} options", tried);
}

std::string tells_what_it_has(Context& context) {
  const Dataset data = open_sample(context, context.plugin());
  const rt_dataset_info& info = data->info();
  require(info.target == request_for(context, "").target,
          fmt::format("info says target {}, the request {}; a reader refuses what it does not have",
                      info.target, request_for(context, "").target));
  const std::vector<int64_t> shape(info.shape, info.shape + info.rank);
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return fmt::format("{} samples of [{}], {}", info.samples, text,
                     info.classes > 0 ? fmt::format("{} classes", info.classes)
                                      : fmt::format("{} numbers", info.target_count));
}

void require_labels(const host::ReaderDataset& data, const Read& all) {
  std::vector<int32_t> labels(all.targets.size() / sizeof(int32_t));
  std::memcpy(labels.data(), all.targets.data(), all.targets.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    require(labels[i] >= 0 && labels[i] < data.info().classes,
            fmt::format("target {} is the class {}; info says {} classes", i, labels[i],
                        data.info().classes));
  }
}

void require_numbers(const std::vector<std::byte>& bytes, const char* what) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    require(std::isfinite(numbers[i]), fmt::format("{} {} is {}", what, i, numbers[i]));
}

std::string has_values_within_bounds(Context& context) {
  const Dataset data = open_sample(context, context.plugin());
  const Read all = read(*data, first_indices(*data));
  if (data->info().feature_dtype == RT_FLOAT32) require_numbers(all.features, "feature");
  if (data->info().target == RT_TARGET_LABELS) {
    require_labels(*data, all);
  } else {
    require_numbers(all.targets, "target");
  }
  return "";
}

// The samples of `indices`, taken out of those that were read in order.
Read picked(const host::ReaderDataset& data, const Read& all, const std::vector<int64_t>& indices) {
  Read result;
  const auto pick = [&](const std::vector<std::byte>& from, std::vector<std::byte>& to,
                        uint64_t each) {
    for (const int64_t i : indices) {
      const auto begin = from.begin() + static_cast<std::ptrdiff_t>(i * static_cast<int64_t>(each));
      to.insert(to.end(), begin, begin + static_cast<std::ptrdiff_t>(each));
    }
  };
  pick(all.features, result.features, data.feature_bytes());
  pick(all.targets, result.targets, data.target_bytes());
  return result;
}

std::string reads_in_any_order(Context& context) {
  const Dataset data = open_sample(context, context.plugin());
  std::vector<int64_t> indices = first_indices(*data);
  const Read all = read(*data, indices);
  require(read(*data, indices) == all, "the same samples, read again, are others");
  std::reverse(indices.begin(), indices.end());
  require(read(*data, indices) == picked(*data, all, indices),
          "samples that are read in descending order are not those of their indices");
  const std::vector<int64_t> twice = {indices.back(), indices.front(), indices.back()};
  require(read(*data, twice) == picked(*data, all, twice),
          "samples of which one is asked for twice are not those of their indices");
  for (const int64_t i : indices) {
    require(read(*data, {i}) == picked(*data, all, {i}),
            fmt::format("sample {}, read alone, is another one", i));
  }
  data->read({}, nullptr, nullptr);
  return "";
}

std::string reads_one_part_only(Context& context) {
  const Dataset data = open_sample(context, context.plugin());
  const std::vector<int64_t> indices = first_indices(*data);
  const Read all = read(*data, indices);
  Read parts{std::vector<std::byte>(all.features.size()),
             std::vector<std::byte>(all.targets.size())};
  data->read(indices, parts.features.data(), nullptr);
  data->read(indices, nullptr, parts.targets.data());
  require(parts == all, "features or targets are others if the other part is not wanted");
  return "";
}

std::string reads_in_threads(Context& context) {
  const Dataset data = open_sample(context, context.plugin());
  const std::vector<int64_t> indices = first_indices(*data);
  const Read all = read(*data, indices);
  std::vector<std::thread> threads;
  std::vector<std::string> failures(4);
  for (size_t t = 0; t < failures.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        for (int round = 0; round < 50; ++round) {
          std::vector<int64_t> own = indices;
          std::rotate(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(t % own.size()),
                      own.end());
          require(read(*data, own) == picked(*data, all, own),
                  "samples are others while several threads read");
        }
      } catch (const std::exception& error) {
        failures[t] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) require(failure.empty(), failure);
  return "";
}

std::string reads_the_same_again(Context& context) {
  const Dataset first = open_sample(context, context.plugin());
  const Read all = read(*first, first_indices(*first));
  for (const auto& plugin : {context.plugin(), host::Plugin::load(context.setup().library, {})}) {
    const Dataset again = open_sample(context, plugin);
    require(again->info().samples == first->info().samples &&
                read(*again, first_indices(*first)) == all,
            "a data set that is opened again has other samples");
  }
  return "";
}

int64_t open_files() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator{});
}

std::string reader_gives_everything_back(Context& context) {
  const auto rounds = [&](int count) {
    for (int n = 0; n < count; ++n) {
      const Dataset data = open_sample(context, context.plugin());
      read(*data, {0});
    }
  };
  rounds(3);
  const int64_t files = open_files(), bytes = heap_bytes();
  constexpr int kRounds = 20;
  rounds(kRounds);
  require(open_files() == files,
          fmt::format("{} files are left open by {} data sets that were closed",
                      open_files() - files, kRounds));
  const int64_t each = (heap_bytes() - bytes) / kRounds;
  require(each < 64, fmt::format("each data set that was opened and closed leaves {} bytes of "
                                 "memory behind",
                                 each));
  return "";
}

std::string knows_other_sizes(Context& context) {
  const std::string path = sample_of(context).path, format = format_of(context);
  const rt_reader_api& api = reader_api(context);
  void* const self = context.plugin()->plain_self();
  const host::ReaderRequest wanted = request_for(context, path);
  const host::COptions options(wanted.options);
  Grown<rt_dataset_request> request;
  request.value.split = RT_SPLIT_TRAINING;
  request.value.path = path.c_str();
  request.value.target = wanted.target;
  request.value.rank = static_cast<int32_t>(wanted.shape.size());
  std::copy(wanted.shape.begin(), wanted.shape.end(), request.value.shape);
  request.value.options = options.data();
  request.value.option_count = options.size();
  check_input("rt_dataset_request", request, RT_DATASET_REQUEST_SIZE_V1, [&](rt_error* error) {
    rt_dataset* opened = nullptr;
    const rt_status status = api.open(self, format.c_str(), &request.value, &opened, error);
    if (status == RT_OK) api.close(opened);
    return status;
  });
  rt_dataset* data = nullptr;
  rt_error error = host::make_error();
  host::check(api.open(self, format.c_str(), &request.value, &data, &error), error, "open");
  const std::unique_ptr<rt_dataset, void (*)(rt_dataset*)> closes(data, api.close);
  check_output<rt_dataset_info>(
      "info", RT_DATASET_INFO_SIZE_V1,
      [&](rt_dataset_info* info, rt_error* e) { return api.info(data, info, e); });
  const int64_t index = 0;
  uint64_t filled = 0;
  Grown<rt_samples> samples;
  samples.value.indices = &index;
  samples.value.count = 1;
  check_input("rt_samples", samples, RT_SAMPLES_SIZE_V1,
              [&](rt_error* e) { return api.read(data, &samples.value, &filled, e); });
  return "";
}

}  // namespace

void add_reader_checks(std::vector<Check>& checks) {
  const auto add = [&](const char* name, std::string (*body)(Context&)) {
    checks.push_back({"readers", name, body});
  };
  add("describe their formats", describes_its_formats);
  add("name a file that does not exist", names_a_file_that_is_absent);
  add("refuse files that are no data set, or read them", survives_other_files);
  add("say what the sample has", tells_what_it_has);
  add("have finite features, and labels below the number of classes", has_values_within_bounds);
  add("give each index its sample, in any order, alone and together", reads_in_any_order);
  add("read features or targets alone", reads_one_part_only);
  add("read in several threads at the same time", reads_in_threads);
  add("read the same when they open it again", reads_the_same_again);
  add("refuse the sample without its end, or read what is there", survives_its_end_cut_off);
  add("refuse options that are no values of their types", refuses_wrong_options);
  add("know structs of older and newer hosts", knows_other_sizes);
  add("leave no memory and no open file behind", reader_gives_everything_back);
}

}  // namespace plugins::check
