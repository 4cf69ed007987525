#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/cli/commands.h"
#include "runtime/data/tokenizer.h"
#include "runtime/error.h"
#include "runtime/launch/run_ranks.h"
#include "runtime/train/generate.h"
#include "runtime/train/open.h"
#include "runtime/train/ranks.h"

namespace runtime::cli {

namespace {

struct PredictArguments {
  ConfigArguments config;
  std::string weights;
  std::string prompt = "\n";  // language models
  int64_t tokens = 500;
  train::Sampling sampling;
  std::string part = "validation";  // other models
  std::string format = "json";
  int64_t samples = 0;
};

const char* search_path() { return std::getenv("RUNTIME_DATA_PATH"); }

std::unique_ptr<train::Trainer> open_trainer(const launch::Rank& rank, const config::Config& config,
                                             const data::SampleSpec& spec,
                                             const data::TensorFile& weights,
                                             const std::string& path) {
  const auto device = train::open_device(config, *rank.registry, rank.place.local_rank, nullptr);
  auto trainer =
      std::make_unique<train::Trainer>(config, spec, device, train::compile_options(config));
  trainer->set_weights(weights, path);
  return trainer;
}

// ---- language models

// The files may be gone.
data::DatasetOptions options_without_files(config::Config config) {
  for (std::string* path :
       {&config.dataset.path, &config.dataset.target_path, &config.dataset.validation_path,
        &config.dataset.validation_target_path})
    path->clear();
  return train::data_options(config, search_path());
}

// Needs the data set only for what neither the configuration nor the weights tell.
data::SampleSpec text_spec(const config::Config& config, const data::DatasetOptions& options,
                           const data::TensorFile& weights) {
  const auto characters = weights.metadata.find("characters");
  data::SampleSpec spec;
  if (options.tokenizer == "char") {
    if (characters == weights.metadata.end())
      return train::open_data(config, search_path()).train->spec();
    spec.characters = characters->second;
  } else if (options.tokenizer.empty() && options.classes == 0) {
    return train::open_data(config, search_path()).train->spec();
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
  const data::SampleSpec spec = text_spec(config, options, weights);
  const auto tokenizer = data::make_tokenizer(options, spec.characters, spec.classes);
  const std::vector<int32_t> prompt = encode_prompt(*tokenizer, arguments.prompt);
  const auto trainer = open_trainer(rank, config, spec, weights, arguments.weights);
  train::Generator generator(*trainer, spec, arguments.sampling, prompt);
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
  return {0, 0, static_cast<int32_t>(largest - logits), 1 / sum};
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
  const config::Config config = train::resolve_ranks(rank.config, 1);
  const data::DatasetPair data = train::open_data(config, search_path());
  const auto& part = arguments.part == "train" ? data.train : data.validation;
  if (part == nullptr) {
    throw ConfigurationError(
        "the data set has no validation part; set dataset.validation_split or "
        "dataset.validation_path, or use --part train");
  }
  const auto trainer = open_trainer(rank, config, data.train->spec(), weights, arguments.weights);
  data::Loader loader(part, train::validation_loader_options(config));
  const int64_t end =
      arguments.samples > 0 ? std::min(arguments.samples, part->size()) : part->size();
  const bool csv = arguments.format == "csv";
  if (csv) print_header(part->spec());
  for (int64_t done = 0; done < end;) {
    const data::Batch& batch = loader.next();
    const int64_t count = std::min(batch.rows, end - done);
    print_rows(batch, trainer->outputs(batch), count, done, part->spec(), csv);
    done += count;
  }
}

void refuse_unused(const CLI::App& command, bool text) {
  for (const char* option : {"--prompt", "--tokens", "--temperature", "--top-k", "--seed"}) {
    if (!text && command.count(option) > 0)
      throw ConfigurationError(std::string(option) +
                               " is for language models, but the data set is none; remove it");
  }
  for (const char* option : {"--part", "--format", "--samples"}) {
    if (text && command.count(option) > 0)
      throw ConfigurationError(std::string(option) +
                               " is not for language models, which write text; remove it");
  }
}

// One rank is enough, whatever trained the model.
void run_predict(const PredictArguments& arguments, const CLI::App& command) {
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
    refuse_unused(command, text);
    const data::TensorFile weights = data::read_safetensors(arguments.weights);
    text ? write_text(rank, arguments, options, weights)
         : write_predictions(rank, arguments, weights);
  };
  launch::run_ranks(run);
}

}  // namespace

void add_predict(CLI::App& app, Outcome&) {
  auto arguments = std::make_shared<PredictArguments>();
  CLI::App* command = app.add_subcommand(
      "predict",
      "What a trained model says: text of a language model, else a class or numbers per sample");
  PredictArguments& a = *arguments;
  a.config.add_to(*command);
  command->add_option("--weights", a.weights, "safetensors file with the model's weights")
      ->required();
  command->add_option("--prompt", a.prompt,
                      "Language models: the text to go on from (token ids where the data set has "
                      "no tokenizer); default: a new line");
  command->add_option("--tokens", a.tokens, "How many tokens to write; default 500")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--temperature", a.sampling.temperature,
                   "Divides the logits: below 1 likely tokens become likelier, 0 takes the most "
                   "likely one; default 0.8")
      ->check(CLI::Range(0.0, 1e6));
  command
      ->add_option("--top-k", a.sampling.top_k,
                   "Draw from so many of the most likely tokens; 0: from all; default 200")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seed", a.sampling.seed, "Of the drawing; default 42");
  command->add_option("--part", a.part, "Other models: which samples, validation or train")
      ->check(CLI::IsMember({"validation", "train"}));
  command->add_option("--format", a.format, "json (one object a line) or csv")
      ->check(CLI::IsMember({"json", "csv"}));
  command->add_option("--samples", a.samples, "Only so many, the first ones")
      ->check(CLI::PositiveNumber);
  command->footer(
      "Text is written as it comes; the same seed gives the same text.\n"
      "Examples:\n"
      "  runtime predict configs/tiny_shakespeare_gpt_cpu.toml --weights "
      "outputs/run/weights.safetensors --prompt ROMEO: --tokens 300\n"
      "  runtime predict configs/fashion_mnist_lenet.toml --weights "
      "outputs/run/weights.safetensors --format csv > predictions.csv");
  command->callback([arguments, command] { run_predict(*arguments, *command); });
}

}  // namespace runtime::cli
