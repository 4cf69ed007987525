// Writes and reads the state of a job as JSON, with what older programs wrote.
#include "runtime/train/checkpoint/saved_state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/error.h"

namespace runtime::train {

namespace {

// JSON has no NaN: null stands for it.
double number(const nlohmann::json& j) { return j.is_null() ? std::nan("") : j.get<double>(); }

nlohmann::ordered_json to_json(const ProgressState& s) {
  return {{"best", s.best}, {"bad", s.bad}, {"cooldown", s.cooldown}, {"factor", s.factor}};
}

ProgressState progress_from(const nlohmann::json& j) {
  return {number(j.at("best")), j.at("bad").get<int64_t>(), j.at("cooldown").get<int64_t>(),
          j.at("factor").get<double>()};
}

// An older program had means of steps, so that each step weighs 1.
LogSums log_from(const nlohmann::json& j) {
  const auto steps = j.at("steps").get<int64_t>();
  const double weight = j.value("weight", static_cast<double>(steps));
  return {{number(j.at("loss")), weight, steps}, j.at("samples").get<int64_t>()};
}

nlohmann::ordered_json to_json(const BestValidation& best) {
  nlohmann::ordered_json j = {{"value", best.value}, {"step", best.step}};
  if (best.loss) j["loss"] = *best.loss;
  if (best.accuracy) j["accuracy"] = *best.accuracy;
  return j;
}

BestValidation best_from(const nlohmann::json& j) {
  BestValidation best{j.at("value").get<double>(), j.at("step").get<int64_t>()};
  if (j.contains("loss")) best.loss = number(j.at("loss"));
  if (j.contains("accuracy")) best.accuracy = number(j.at("accuracy"));
  return best;
}

SavedState from_json(const nlohmann::json& j) {
  SavedState s;
  j.at("step").get_to(s.step);
  j.at("steps_per_epoch").get_to(s.steps_per_epoch);
  const auto& mesh = j.at("mesh");
  s.mesh = {mesh.at("data").get<int>(), mesh.at("tensor").get<int>(),
            mesh.at("pipeline").get<int>()};
  j.at("speeds").get_to(s.speeds);
  for (const auto& stage : j.at("stages"))
    s.stages.push_back({stage.at(0).get<std::string>(), stage.at(1).get<int>()});
  s.log = log_from(j.at("log"));
  j.at("metrics_bytes").get_to(s.metrics_bytes);
  j.at("validated").get_to(s.validated);
  j.at("monitor").get_to(s.monitor);
  if (j.contains("monitored")) s.monitored = number(j.at("monitored"));
  j.at("best").get_to(s.best);
  if (j.contains("best_validation")) s.best_validation = best_from(j.at("best_validation"));
  s.plateau = progress_from(j.at("plateau"));
  s.early_stopping = progress_from(j.at("early_stopping"));
  s.listed_order = j.value("listed_order", true);  // an older program saved it
  j.at("data").get_to(s.data);
  s.preparation = j.value("preparation", "");
  j.at("environment").get_to(s.environment);
  j.at("created").get_to(s.created);
  return s;
}

bool is_sane(const SavedState& s) {
  return s.step >= 0 && s.steps_per_epoch >= 1 && s.mesh.data >= 1 && s.mesh.tensor >= 1 &&
         s.mesh.pipeline >= 1;
}

}  // namespace

std::string to_json(const SavedState& s) {
  nlohmann::ordered_json j;
  j["step"] = s.step;
  j["steps_per_epoch"] = s.steps_per_epoch;
  j["mesh"] = {{"data", s.mesh.data}, {"tensor", s.mesh.tensor}, {"pipeline", s.mesh.pipeline}};
  j["speeds"] = s.speeds;
  j["stages"] = nlohmann::ordered_json::array();
  for (const parallel::StagedLayer& stage : s.stages)
    j["stages"].push_back(nlohmann::ordered_json::array({stage.layer, stage.stage}));
  j["log"] = {{"loss", s.log.loss.sum},
              {"weight", s.log.loss.weight},
              {"steps", s.log.loss.steps},
              {"samples", s.log.samples}};
  j["metrics_bytes"] = s.metrics_bytes;
  j["validated"] = s.validated;
  j["monitor"] = s.monitor;
  if (s.monitored) j["monitored"] = *s.monitored;
  j["best"] = s.best;
  if (s.best_validation) j["best_validation"] = to_json(*s.best_validation);
  j["plateau"] = to_json(s.plateau);
  j["early_stopping"] = to_json(s.early_stopping);
  j["listed_order"] = s.listed_order;
  j["data"] = s.data;
  j["preparation"] = s.preparation;
  j["environment"] = s.environment;
  j["created"] = s.created;
  return j.dump();
}

SavedState parse_saved_state(const std::string& json, const std::string& where) {
  try {
    SavedState state = from_json(nlohmann::json::parse(json));
    if (is_sane(state)) return state;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(where + ": the state of the run cannot be read: " + error.what());
  }
  throw DataError(where + ": the state of the run has impossible numbers: " + json);
}

}  // namespace runtime::train
