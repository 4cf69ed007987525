#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"
#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/launch/open_device.h"
#include "runtime/launch/run_ranks.h"
#include "runtime/step/ranks.h"
#include "runtime/train/formatted.h"
#include "runtime/train/generate.h"
#include "runtime/train/open.h"
#include "runtime/train/step_programs.h"

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
  if (options.tokenizer == "char") {
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
  const std::vector<int32_t> prompt = encode_prompt(*tokenizer, arguments.prompt);
  const Opened model = open_model(rank, config, spec, weights, arguments.weights);
  train::Generator generator(*model.programs, arguments.sampling, prompt);
  for (const int32_t id : prompt) std::cout << tokenizer->decode(id);
  for (int64_t i = 0; i < arguments.tokens && std::cout; ++i)
    std::cout << std::flush << tokenizer->decode(generator.next());
  std::cout << std::endl;
}

// ---- other models

struct Prediction {
  int64_t index = 0;
  int32_t label = 0, predicted = 0;
  double probability = 0;  // of `predicted`
};

Prediction classify(const double* logits, int64_t classes) {
  const double* largest = std::max_element(logits, logits + classes);
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) sum += std::exp(logits[i] - *largest);
  return {0, 0, static_cast<int32_t>(largest - logits), train::without_sign_of_nan(1 / sum)};
}

void print_class(const Prediction& p, bool csv) {
  if (csv) return fmt::print("{},{},{},{:.9g}\n", p.index, p.label, p.predicted, p.probability);
  nlohmann::ordered_json j;
  j["index"] = p.index;
  j["label"] = p.label;
  j["predicted"] = p.predicted;
  j["probability"] = p.probability;
  fmt::print("{}\n", j.dump());
}

void print_numbers(int64_t index, const std::vector<double>& targets,
                   const std::vector<double>& predicted, bool csv) {
  if (csv)
    return fmt::print("{},{},{}\n", index, fmt::join(targets, ","), fmt::join(predicted, ","));
  nlohmann::ordered_json j;
  j["index"] = index;
  j["targets"] = targets;
  j["predicted"] = predicted;
  fmt::print("{}\n", j.dump());
}

void print_header(const data::SampleSpec& spec) {
  if (spec.classes > 0) return fmt::print("index,label,predicted,probability\n");
  fmt::print("index");
  for (const char* name : {"target", "predicted"}) {
    for (int64_t i = 0; i < spec.targets; ++i) fmt::print(",{}_{}", name, i);
  }
  fmt::print("\n");
}

void print_rows(const data::Batch& batch, const std::vector<double>& outputs, int64_t count,
                int64_t first_index, const data::SampleSpec& spec, bool csv) {
  const int64_t width = static_cast<int64_t>(outputs.size()) / batch.rows;
  for (int64_t row = 0; row < count; ++row) {
    const double* output = outputs.data() + row * width;
    if (spec.classes > 0) {
      Prediction p = classify(output, width);
      p.index = first_index + row;
      p.label = batch.labels[row];
      print_class(p, csv);
    } else {
      const auto targets = batch.targets.begin() + row * spec.targets;
      print_numbers(first_index + row, {targets, targets + spec.targets}, {output, output + width},
                    csv);
    }
  }
}

void write_predictions(const launch::Rank& rank, const PredictArguments& arguments,
                       const data::TensorFile& weights) {
  const config::Config config = step::resolve_ranks(rank.config, 1);
  const data::DatasetPair data = train::open_data(config, search_path(), rank.registry.get());
  const auto& part = arguments.part == "train" ? data.train : data.validation;
  if (part == nullptr) {
    throw ConfigurationError(
        "the data set has no validation part; set dataset.validation_split or "
        "dataset.validation_path, or use --part train");
  }
  const Opened model = open_model(rank, config, data.train->spec(), weights, arguments.weights);
  data::Loader loader(part, train::validation_loader_options(config));
  const int64_t end =
      arguments.samples > 0 ? std::min(arguments.samples, part->size()) : part->size();
  const bool csv = arguments.format == "csv";
  if (csv) print_header(part->spec());
  for (int64_t done = 0; done < end;) {
    const data::Batch& batch = loader.next();
    const int64_t count = std::min(batch.rows, end - done);
    print_rows(batch, model.trainer->outputs(batch), count, done, part->spec(), csv);
    done += count;
  }
}

void refuse_unused(const std::vector<std::string>& given, bool text) {
  const std::set<std::string> of_text = {"--prompt", "--tokens", "--temperature", "--top-k",
                                         "--seed"};
  const std::set<std::string> of_others = {"--part", "--format", "--samples"};
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
    const bool text = data::is_text(options) || options.next_token;
    refuse_unused(arguments.given, text);
    const data::TensorFile weights = data::read_safetensors(arguments.weights);
    text ? write_text(rank, arguments, options, weights)
         : write_predictions(rank, arguments, weights);
  };
  launch::run_ranks(run);
}

}  // namespace runtime::cli
