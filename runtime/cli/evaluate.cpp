// The command evaluate: loss and metrics of saved weights, as a table or as JSON.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/cli/commands.h"
#include "runtime/cli/say.h"
#include "runtime/error.h"
#include "runtime/session/session.h"
#include "runtime/terminal/terminal.h"
#include "runtime/train/formatted.h"
#include "runtime/train/open.h"

namespace runtime::cli {

namespace {

// Larger confusion matrices are printed as JSON only.
constexpr size_t kMostPrintedClasses = 20;
// Columns that the name of a class takes at most.
constexpr size_t kLongestName = 12;

// JSON cannot represent NaN, so it becomes null.
void print_json(const train::Evaluation& e, const session::Session& session) {
  nlohmann::ordered_json j;
  j["samples"] = e.samples;
  j["loss"] = e.loss;
  if (session.programs->setup().spec.classes > 0) j["accuracy"] = e.accuracy;
  for (const train::NamedValue& number : e.metrics.numbers) j[number.name] = number.value;
  if (!e.metrics.confusion.empty()) {
    j["confusion"] = e.metrics.confusion;
    if (!session.data.preparation.class_names.empty())
      j["class_names"] = session.data.preparation.class_names;
  }
  j["device"] = session.device->id();
  std::cout << j.dump() << std::endl;
}

// Returns the name of a class, or its number where the data have no names, with spaces before it.
std::string class_name(const std::vector<std::string>& names, size_t label, size_t columns) {
  const std::string name = label < names.size() ? terminal::shortened(names[label], kLongestName)
                                                : std::to_string(label);
  return terminal::padded(name, columns, /*right=*/true);
}

void print_confusion(const train::ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  if (matrix.empty()) return;
  const size_t predicted = matrix[0].size();
  if (predicted > kMostPrintedClasses)
    return say("\nconfusion matrix: {} classes are too many to print, see --format json\n",
               predicted);
  int64_t largest = static_cast<int64_t>(predicted);
  for (const auto& row : matrix)
    largest = std::max(largest, *std::max_element(row.begin(), row.end()));
  size_t longest = std::to_string(largest).size();
  for (const std::string& name : names) longest = std::max(longest, terminal::width(name));
  const size_t width = std::min(longest, kLongestName) + 2, first = std::max<size_t>(7, width);
  const size_t needed = first + 2 + predicted * width;
  const int columns = terminal::columns(STDOUT_FILENO);
  if (columns > 0 && needed > static_cast<size_t>(columns)) {
    return say(
        "\nconfusion matrix: takes {} columns, and this terminal has {}; see --format json\n",
        needed, columns);
  }
  say("\nconfusion matrix: a row for each label, a column for each predicted class\n");
  fmt::print("{:>{}}", "", first + 2);
  for (size_t c = 0; c < predicted; ++c) fmt::print("{}", class_name(names, c, width));
  for (size_t label = 0; label < matrix.size(); ++label) {
    fmt::print("\n{} |", class_name(names, label, first));
    for (const int64_t count : matrix[label]) fmt::print("{:>{}}", count, width);
  }
  fmt::print("\n");
}

void print_table(const train::Evaluation& e, const session::Session& session,
                 const std::string& part) {
  say("{} on {}: {} samples of the {} part\n\n", session.config.name, session.device->id(),
      e.samples, part);
  const auto row = [](const std::string& name, double value) {
    fmt::print("{:<18}{:>12.6g}\n", name, train::without_sign_of_nan(value));
  };
  row("loss", e.loss);
  if (session.programs->setup().spec.classes > 0) row("accuracy", e.accuracy);
  for (const train::NamedValue& number : e.metrics.numbers) row(number.name, number.value);
  print_confusion(e.metrics.confusion, session.data.preparation.class_names);
}

void print(const train::Evaluation& e, const session::Session& session,
           const EvaluateArguments& arguments) {
  const bool table =
      arguments.format == "table" || (arguments.format == "auto" && isatty(STDOUT_FILENO) != 0);
  table ? print_table(e, session, arguments.part) : print_json(e, session);
}

// The arguments with --metrics as values of the configuration, which checks them.
ConfigArguments with_metrics(const EvaluateArguments& arguments) {
  ConfigArguments config = arguments.config;
  if (arguments.metrics.empty()) return config;
  config.options.push_back({"validation.metrics",
                            fmt::format("[\"{}\"]", fmt::join(arguments.metrics, "\", \"")),
                            "--metrics"});
  // The monitored value of training may not be among them.
  config.options.push_back({"validation.monitor", "loss", "--metrics"});
  return config;
}

void evaluate_rank(session::Session& session, const EvaluateArguments& arguments) {
  const auto& dataset = arguments.part == "train" ? session.data.train : session.data.validation;
  if (dataset == nullptr) {
    throw ConfigurationError(
        "the data set has no validation part; set dataset.validation_split or "
        "dataset.validation_path, or use --part train");
  }
  const parallel::BatchSplit& split = session.trainer->split();
  data::Loader loader(
      dataset, train::validation_loader_options(session.config, split.rank, split.world_size));
  const train::Evaluation e = session.trainer->evaluate(loader);
  if (session.rank.main()) {
    session::print_notes(session.data);
    session::print_notes(*session.programs);
    print(e, session, arguments);
  }
  if (!e.counts) {
    throw DataError("every label of the " + arguments.part + " part is training.ignore_label = " +
                    std::to_string(session.config.training.ignore_label) +
                    ", so that nothing counts; use samples whose labels count, or remove that key");
  }
  if (std::isfinite(e.loss)) return;
  throw NumericError("the loss of the " + arguments.part + " part is " +
                     train::formatted("%f", e.loss) + "; " + arguments.weights +
                     " is of a run that diverged, or the data hold numbers that are too large");
}

}  // namespace

void run_evaluate(const EvaluateArguments& arguments, Outcome& outcome) {
  config::Config config = with_metrics(arguments).load();
  start_from(config.model, arguments.weights);
  outcome.exit_code =
      session::run_sessions(config, host_services(), outcome.arguments,
                            [&](session::Session& session) { evaluate_rank(session, arguments); },
                            {.weights = arguments.weights});
}

}  // namespace runtime::cli
