// The command predict: text from language models, classes or numbers for samples of other models.
#include "runtime/cli/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/cli/commands.h"
#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/launch/job.h"
#include "runtime/launch/open_device.h"
#include "runtime/model/layer_types.h"
#include "runtime/model/network.h"
#include "runtime/session/session.h"
#include "runtime/step/ranks.h"
#include "runtime/train/formatted.h"
#include "runtime/train/open.h"
#include "runtime/train/options.h"
#include "runtime/train/rank/step_programs.h"

namespace runtime::cli {

const char* data_search_path() { return std::getenv("RUNTIME_DATA_PATH"); }

Opened open_model(const launch::Rank& rank, const config::Config& config,
                  const data::SampleSpec& spec) {
  const auto device = launch::open_device(config, *rank.registry, rank.place.local_rank, nullptr);
  const auto fallback =
      launch::open_fallback(config, *rank.registry, *device, rank.place.local_rank);
  train::RankSetup setup(config, spec, device, train::compile_options(config, fallback));
  setup.inference = true;
  const auto programs = std::make_shared<train::StepPrograms>(std::move(setup));
  auto trainer = std::make_unique<train::Trainer>(programs);
  session::print_notes(*programs);
  return {programs, std::move(trainer)};
}

namespace {

// What is said of one sample, in this order: names of columns, or keys of a JSON object.
using Row = nlohmann::ordered_json;

struct Best {
  int32_t label = 0;
  double probability = 0;
};

Best most_likely(const double* logits, int64_t classes) {
  const double* largest = std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - *largest);
  return {static_cast<int32_t>(largest - logits), train::without_sign_of_nan(1 / sum)};
}

// The opened samples, and what is known of them.
struct Samples {
  std::shared_ptr<const data::Dataset> part;
  bool labelled = true;
  std::vector<std::string> class_names;

  void add_class(Row& row, const char* key, const std::string& name_key, int32_t label) const {
    row[key] = label;
    const auto at = static_cast<size_t>(label);
    if (at < class_names.size()) row[name_key] = class_names[at];
  }

  Row row(const data::Batch& batch, int64_t in_batch, int64_t index, const double* output,
          int64_t width) const {
    Row row;
    row["index"] = index;
    if (const std::string file = part->file(index); !file.empty()) row["file"] = file;
    if (part->spec().classes > 0) {
      const Best best = most_likely(output, width);
      if (labelled) add_class(row, "label", "label_name", batch.labels[in_batch]);
      add_class(row, "predicted", "predicted_name", best.label);
      row["probability"] = best.probability;
      return row;
    }
    const int64_t count = part->spec().targets;
    const auto targets = batch.targets.begin() + in_batch * count;
    if (labelled) row["targets"] = std::vector<double>(targets, targets + count);
    row["predicted"] = std::vector<double>(output, output + width);
    return row;
  }
};

// Columns of a table: several numbers become `<name>_0` and so on; what is counted is called
// "target" there.
Row flattened(const Row& row) {
  Row flat;
  for (const auto& [key, value] : row.items()) {
    const std::string name = key == "targets" ? "target" : key;
    if (!value.is_array()) flat[name] = value;
    for (size_t i = 0; value.is_array() && i < value.size(); ++i)
      flat[fmt::format("{}_{}", name, i)] = value[i];
  }
  return flat;
}

// A field as RFC 4180 has it.
std::string csv_field(const Row& value) {
  if (value.is_number_float()) return fmt::format("{:.9g}", value.get<double>());
  if (!value.is_string()) return value.dump();
  std::string text = value.get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2)
    text.insert(at, "\"");
  return '"' + text + '"';
}

void print_row(const Row& row, bool csv, bool first) {
  if (!csv) {
    fmt::print("{}\n", row.dump(-1, ' ', false, Row::error_handler_t::replace));
    return;
  }
  const Row flat = flattened(row);
  std::vector<std::string> names, fields;
  for (const auto& [name, value] : flat.items()) {
    names.push_back(name);
    fields.push_back(csv_field(value));
  }
  if (first) fmt::print("{}\n", fmt::join(names, ","));
  fmt::print("{}\n", fmt::join(fields, ","));
}

// The named inputs of the samples that the model reads outside training.
std::set<std::string> inputs_of_predictions(const config::Model& model) {
  const model::Network network =
      model::build_network(model::model_from_config(model), {.training = false});
  std::set<std::string> names;
  for (const model::NamedInput& input : network.inputs) names.insert(input.name);
  return names;
}

// The configuration with the samples of `path` as its only ones.
config::Config with_data(config::Config config, const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    throw DataError("--data " + path + ": it does not exist or cannot be read (looked for in " +
                    std::filesystem::current_path(error).string() + "); correct the path");
  }
  config::Dataset& d = config.dataset;
  d.path = path;
  d.target_path = d.validation_path = d.validation_target_path = "";
  const std::set<std::string> read = inputs_of_predictions(config.model);
  for (const config::DatasetInput& input : d.inputs) {
    if (input.path.empty() || !read.contains(input.name)) continue;
    throw ConfigurationError("--data gives only the features, and the input " + input.name +
                             " has a file of its own; set dataset.path and the paths of "
                             "[[dataset.input]] in a configuration that extends this one");
  }
  // New samples need no weights and no second labels; but where all other columns are features,
  // theirs must be known.
  std::erase_if(d.inputs, [&](const config::DatasetInput& input) {
    return !read.contains(input.name) && (!input.path.empty() || !d.features.empty());
  });
  config.training.sample_weights.clear();
  d.validation_split = 0;
  return config;
}

Samples open_samples(const config::Config& config, const data::DatasetPair& data,
                     const PredictArguments& arguments) {
  const bool train = arguments.part == "train" || !arguments.data.empty();
  Samples samples{train ? data.train : data.validation, data.labelled,
                  data.preparation.class_names};
  if (samples.part != nullptr) return samples;
  throw ConfigurationError(config.name +
                           ": the data set has no validation part; set dataset.validation_split or "
                           "dataset.validation_path, or use --part train or --data FILE");
}

// Every batch has the same number of rows, so that the same kernels compute each sample: its
// prediction has the same bits whichever other samples the file holds. Few enough rows for one.
constexpr int64_t kMostRows = 64;

void write_predictions(const launch::Rank& rank, const PredictArguments& arguments) {
  config::Config config = step::resolve_ranks(rank.config, 1);
  if (!arguments.data.empty()) config = with_data(std::move(config), arguments.data);
  config.training.global_batch_size = std::min(config.training.global_batch_size, kMostRows);
  const data::DatasetPair data =
      train::open_data(config, data_search_path(), rank.registry.get(),
                       {.weights = arguments.weights, .needs_targets = arguments.data.empty()});
  session::print_notes(data);
  const Samples samples = open_samples(config, data, arguments);
  const Opened model = open_model(rank, config, data.train->spec());
  data::LoaderOptions batches = train::validation_loader_options(config);
  batches.last_batch = data::LastBatch::kPad;
  data::Loader loader(samples.part, batches);
  const int64_t size = samples.part->size();
  const int64_t end = arguments.samples > 0 ? std::min(arguments.samples, size) : size;
  for (int64_t done = 0; done < end;) {
    const data::Batch& batch = loader.next();
    const std::vector<double> outputs = model.trainer->outputs(batch);
    const int64_t width = static_cast<int64_t>(outputs.size()) / batch.rows;
    const int64_t count = std::min(batch.rows, end - done);
    for (int64_t i = 0; i < count; ++i, ++done) {
      print_row(samples.row(batch, i, done, outputs.data() + i * width, width),
                arguments.format == "csv", done == 0);
    }
  }
}

void refuse_unused(const std::vector<std::string>& given, bool text, bool masked) {
  const std::set<std::string> of_text = {"--prompt", "--tokens",        "--temperature", "--top-k",
                                         "--top-p",  "--seed",          "--stop",        "--chat",
                                         "--system", "--special-tokens"};
  const std::set<std::string> of_others = {"--part", "--data", "--format", "--samples"};
  for (const std::string& option : given) {
    if (masked && option != "--prompt" && of_text.contains(option))
      throw ConfigurationError(option +
                               " is for models that continue a text, not for one that fills in "
                               "masks; remove it");
    if (!text && of_text.contains(option))
      throw ConfigurationError(option +
                               " is for language models, but the data set is none; remove it");
    if (text && of_others.contains(option))
      throw ConfigurationError(option + " is not for language models, which write text; remove it");
  }
}

}  // namespace

// Prediction takes one rank, whatever ranks have trained the model.
void run_predict(const PredictArguments& arguments) {
  config::Config one = arguments.config.load();
  one.launch.ranks = 1;
  one.parallelism = {};
  start_from(one.model, arguments.weights);
  launch::run_ranks(one, host_services(), {}, [&](launch::Rank& rank) {
    if (!rank.main()) return;
    const bool text = config::is_language(rank.config.dataset);
    const bool masked = config::task_of(rank.config.dataset).masked;
    refuse_unused(arguments.given, text, masked);
    if (!arguments.data.empty() &&
        std::count(arguments.given.begin(), arguments.given.end(), "--part") > 0)
      throw ConfigurationError("--data has no parts; remove --part");
    if (masked)
      fill_masks(rank, arguments);
    else if (text)
      write_text(rank, arguments);
    else
      write_predictions(rank, arguments);
  });
}

}  // namespace runtime::cli
