// The command predict: text from language models, classes or numbers for samples of other models.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"
#include "runtime/config/choices.h"
#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/launch/open_device.h"
#include "runtime/launch/run_ranks.h"
#include "runtime/step/ranks.h"
#include "runtime/tokenizer/text_stream.h"
#include "runtime/train/formatted.h"
#include "runtime/train/generate.h"
#include "runtime/train/open.h"
#include "runtime/train/step_programs.h"
#include "runtime/train/weights.h"

namespace runtime::cli {

namespace {

const char* search_path() { return std::getenv("RUNTIME_DATA_PATH"); }

// A model with its weights, ready to compute.
struct Opened {
  std::shared_ptr<train::StepPrograms> programs;
  std::unique_ptr<train::Trainer> trainer;
};

Opened open_model(const launch::Rank& rank, const config::Config& config,
                  const data::SampleSpec& spec, const data::TensorFile& weights,
                  const std::string& path) {
  const auto device = launch::open_device(config, *rank.registry, rank.place.local_rank, nullptr);
  const auto fallback =
      launch::open_fallback(config, *rank.registry, *device, rank.place.local_rank);
  const auto programs = std::make_shared<train::StepPrograms>(
      config, spec, device, train::compile_options(config, fallback));
  auto trainer = std::make_unique<train::Trainer>(programs);
  print_notes(*programs);
  trainer->set_weights(weights, path);
  return {programs, std::move(trainer)};
}

// ---- language models

// Clears the paths of the data set, because its files may not exist any more.
data::DatasetOptions options_without_files(config::Config config) {
  for (std::string* path :
       {&config.dataset.path, &config.dataset.target_path, &config.dataset.validation_path,
        &config.dataset.validation_target_path})
    path->clear();
  return train::data_options(config, search_path());
}

// Opens the data set only if neither the configuration nor the weights tell the vocabulary.
data::SampleSpec text_spec(const config::Config& config, const plugins::host::Registry& registry,
                           const data::DatasetOptions& options, const data::TensorFile& weights) {
  const auto characters = weights.metadata.find("characters");
  data::SampleSpec spec;
  if (data::learns_characters(options.tokenizer)) {
    if (characters == weights.metadata.end())
      return train::open_data(config, search_path(), &registry).train->spec();
    spec.characters = characters->second;
  } else if (options.tokenizer.empty() && options.classes == 0) {
    return train::open_data(config, search_path(), &registry).train->spec();
  }
  spec.classes = data::make_tokenizer(options, spec.characters, options.classes)->vocabulary();
  spec.shape = config.model.input;
  spec.labels = spec.shape[0];
  return spec;
}

// Another tokenizer would give the ids of the model another meaning. Weights that were trained on a
// file of ids do not say which one made it.
void check_tokenizer(const data::DatasetOptions& options, const data::TensorFile& weights,
                     const std::string& path) {
  const auto saved = weights.metadata.find(train::kPreparation);
  if (saved == weights.metadata.end()) return;
  const std::string before = data::parse_preparation(saved->second, path).tokenizer;
  const std::string now = data::tokenizer_identity(options);
  if (before.empty() || before == now) return;
  throw DataError(path + ": the weights were trained with the tokenizer \"" + before +
                  "\" (a number is the checksum of tokenizer.json), the configuration has \"" +
                  now + "\"; use the one of the training");
}

std::vector<int32_t> encode_prompt(const data::Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<int32_t> ids;
  try {
    tokenizer.encode(prompt, "--prompt", [&](int32_t id) { ids.push_back(id); });
  } catch (const DataError& error) {
    throw ConfigurationError(error.what());
  }
  if (ids.empty())
    throw ConfigurationError("--prompt has no token; expected at least one to begin with");
  return ids;
}

void write_text(const launch::Rank& rank, const PredictArguments& arguments,
                const data::DatasetOptions& options, const data::TensorFile& weights) {
  config::Config config = rank.config;
  config.training.global_batch_size = 1;
  config.training.micro_batch_size = 0;
  config.debug.virtual_shards = 1;
  const data::SampleSpec spec = text_spec(config, *rank.registry, options, weights);
  const auto tokenizer = data::make_tokenizer(options, spec.characters, spec.classes);
  check_tokenizer(options, weights, arguments.weights);
  const std::vector<int32_t> prompt = encode_prompt(*tokenizer, arguments.prompt);
  const Opened model = open_model(rank, config, spec, weights, arguments.weights);
  train::Generator generator(*model.programs, arguments.sampling, prompt);
  tokenizer::TextStream text(*tokenizer);
  for (const int32_t id : prompt) std::cout << text.add(id);
  for (int64_t i = 0; i < arguments.tokens && std::cout; ++i)
    std::cout << std::flush << text.add(generator.next());
  std::cout << text.finish() << std::endl;
}

// ---- other models

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

void write_predictions(const launch::Rank& rank, const PredictArguments& arguments,
                       const data::TensorFile& weights) {
  config::Config config = step::resolve_ranks(rank.config, 1);
  if (!arguments.data.empty()) config = with_data(std::move(config), arguments.data);
  config.training.global_batch_size = std::min(config.training.global_batch_size, kMostRows);
  const data::DatasetPair data =
      train::open_data(config, search_path(), rank.registry.get(),
                       {.weights = arguments.weights, .needs_targets = arguments.data.empty()});
  print_notes(data);
  const Samples samples = open_samples(config, data, arguments);
  const Opened model = open_model(rank, config, data.train->spec(), weights, arguments.weights);
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

void refuse_unused(const std::vector<std::string>& given, bool text) {
  const std::set<std::string> of_text = {"--prompt", "--tokens", "--temperature", "--top-k",
                                         "--seed"};
  const std::set<std::string> of_others = {"--part", "--data", "--format", "--samples"};
  for (const std::string& option : given) {
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
  launch::RunRanks run;
  run.config = arguments.config.load();
  run.config.launch.ranks = 1;
  run.config.parallelism = {};
  run.config.model.init_from.clear();
  run.services = host_services();
  run.body = [&](launch::Rank& rank) {
    if (!rank.main()) return;
    const data::DatasetOptions options = options_without_files(rank.config);
    const bool text = config::is_language(rank.config.dataset);
    refuse_unused(arguments.given, text);
    if (!arguments.data.empty() &&
        std::count(arguments.given.begin(), arguments.given.end(), "--part") > 0)
      throw ConfigurationError("--data has no parts; remove --part");
    const data::TensorFile weights = data::read_safetensors(arguments.weights);
    text ? write_text(rank, arguments, options, weights)
         : write_predictions(rank, arguments, weights);
  };
  launch::run_ranks(run);
}

}  // namespace runtime::cli
