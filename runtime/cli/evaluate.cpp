#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/cli/commands.h"
#include "runtime/cli/session.h"
#include "runtime/error.h"
#include "runtime/train/open.h"

namespace runtime::cli {

namespace {

// JSON cannot represent NaN, so it becomes null.
void print(const train::Evaluation& e, const Session& session) {
  nlohmann::ordered_json j;
  j["samples"] = e.samples;
  j["loss"] = e.loss;
  if (session.programs->spec().classes > 0) j["accuracy"] = e.accuracy;
  j["device"] = session.device->id();
  std::cout << j.dump() << std::endl;
}

void evaluate_rank(Session& session, const EvaluateArguments& arguments) {
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
  if (session.rank.main()) print(e, session);
  if (std::isfinite(e.loss)) return;
  throw NumericError("the loss of the " + arguments.part + " part is " + std::to_string(e.loss) +
                     "; " + arguments.weights +
                     " is of a run that diverged, or the data hold numbers that are too large");
}

}  // namespace

void run_evaluate(const EvaluateArguments& arguments, Outcome& outcome) {
  launch::RunRanks run;
  run.config = arguments.config.load();
  run.config.model.init_from = arguments.weights;
  run.config.model.init_except.clear();  // it is about the file that training started from
  run_sessions(run, outcome, [&](Session& session) { evaluate_rank(session, arguments); });
}

}  // namespace runtime::cli
