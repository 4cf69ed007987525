#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"
#include "runtime/error.h"
#include "runtime/train/open.h"

namespace runtime::cli {

namespace {

struct EvaluateArguments {
  ConfigArguments config;
  std::string weights;
  std::string part = "validation";
};

void run_evaluate(const EvaluateArguments& arguments) {
  config::Config config = arguments.config.load();
  config.model.init_from = arguments.weights;
  Session session(std::move(config));
  const auto& dataset = arguments.part == "train" ? session.data.train : session.data.validation;
  if (dataset == nullptr) {
    throw ConfigurationError(
        "the data set has no validation part; set dataset.validation_split or "
        "dataset.validation_path, or use --part train");
  }
  data::Loader loader(dataset, train::validation_loader_options(session.config));
  const train::Evaluation e = session.trainer->evaluate(loader);
  nlohmann::ordered_json j;
  j["samples"] = e.samples;
  j["loss"] = e.loss;
  if (session.trainer->classification()) j["accuracy"] = e.accuracy;
  j["device"] = session.device->id();
  std::cout << j.dump() << std::endl;
}

}  // namespace

void add_evaluate(CLI::App& app, Outcome&) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command =
      app.add_subcommand("evaluate", "Loss and accuracy of saved weights, as one JSON object");
  arguments->config.add_to(*command);
  command->add_option("--weights", arguments->weights, "safetensors file with the model's weights")
      ->required();
  command->add_option("--part", arguments->part, "Which samples: validation or train")
      ->check(CLI::IsMember({"validation", "train"}));
  command->footer(
      "Example:\n  runtime evaluate configs/fashion_mnist_lenet.toml --weights "
      "outputs/run/weights.safetensors");
  command->callback([arguments] { run_evaluate(*arguments); });
}

}  // namespace runtime::cli
