// Writes what verify --reduce has found: the case, and the verdict in words and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "runtime/error.h"
#include "runtime/launch/open_device.h"
#include "runtime/train/open.h"
#include "tools/verify/verify.h"

namespace runtime::verify {

namespace {

using nlohmann::ordered_json;

std::string rows_text(const Case& c) {
  const auto& inputs = c.isolated.operation.inputs;
  if (inputs.empty() || inputs[0].rank == 0 || inputs[0].dims[0] == c.origin.rows) return "";
  return fmt::format(", cut down to {} of {} rows", inputs[0].dims[0], c.origin.rows);
}

}  // namespace

std::shared_ptr<plugins::host::Device> open_definition(const config::Config& config,
                                                       const plugins::host::Registry& registry) {
  for (const plugins::host::PluginDescription& plugin : registry.plugins()) {
    for (const plugins::host::DeviceInfo& device : plugin.devices) {
      if (!device.usable() || (device.properties.flags & RT_DEVICE_DEFINITION) == 0) continue;
      config::Config definition = config;
      definition.launch.devices = {device.id()};
      return launch::open_device(definition, registry, 0, nullptr);
    }
  }
  throw plugins::host::Error(
      RT_ERROR_UNAVAILABLE,
      "no plugin has a usable device that defines the operations (RT_DEVICE_DEFINITION); `runtime "
      "devices` lists what was found and why not");
}

std::string element_text(const Verdict& v) {
  const auto number = [](double x) { return std::isnan(x) ? std::abs(x) : x; };  // avoids "-nan"
  return fmt::format("[{}]: expected {:.9g}, actual {:.9g}", fmt::join(v.index, ", "),
                     number(v.expected), number(v.actual));
}

ordered_json to_json(const Verdict& v) {
  return {{"right", v.right},   {"error", v.error}, {"bound", v.bound},       {"single", v.single},
          {"output", v.output}, {"index", v.index}, {"expected", v.expected}, {"actual", v.actual}};
}

Reducer::Reducer(Session& session, std::string folder, std::string against)
    : session_(session),
      folder_(std::move(folder)),
      against_(std::move(against)),
      judge_(open_definition(session.config, *session.rank.registry)) {
  check_case_folder(folder_);
}

std::optional<Reducer::Finding> Reducer::look_at(const StepStart& start, bool equal) {
  if (!equal) {
    Reduction reduction = reduce_step(*session_.programs, judge_, start);
    if (reduction.blame != Blame::kNobody) return report(std::move(reduction));
    if (const auto fault = compare_without_waits(*session_.programs, start))
      return report(*fault, start.step);
    return report(std::move(reduction));
  }
  if (const auto fault = compare_without_waits(*session_.programs, start))
    return report(*fault, start.step);
  return std::nullopt;
}

// Writes the case. If its files cannot be written, the returned text says so, and the finding is
// reported all the same.
std::string Reducer::write(const Case& c) const {
  try {
    write_case(folder_, c);
  } catch (const DataError& error) {
    return std::string("the case was not written: ") + error.what();
  }
  return fmt::format(
      "wrote {}: case.json, operands, expected ({} in float64) and actual{}\nnext: runtime verify "
      "--case {}",
      folder_, c.definition, rows_text(c), folder_);
}

std::string Reducer::rounding_text(const Reduction& r) const {
  return fmt::format(
      "no operation is at fault: {} of {} were compared with {} in float64, each from the operands "
      "that {} gave it, and are within their bounds ('{}' of layer '{}' is nearest to its own: "
      "error {:.3g}, bound {:.3g}). What differs is rounding that has grown from operation to "
      "operation{}. Nothing was written.\nnext: --rtol says how much may differ, --isolate keeps "
      "differences from growing",
      r.judged, r.operations, judge_.definition().id(), session_.device->id(), r.operation, r.layer,
      r.verdict.error, r.verdict.bound,
      against_ == judge_.definition().id() ? "" : ", or it is " + against_ + " that is wrong");
}

std::string Reducer::operation_text(const Reduction& r) const {
  const Case& c = *r.found;
  return fmt::format(
      "operation {} of {} is at fault: {} in layer '{}' ({}), candidate '{}'. Alone, from the "
      "operands that it had, its error is {:.3g}, {} is {:.3g}; output {} at {}\n{}",
      c.origin.operation + 1, c.origin.operations, describe(c.isolated.operation), r.layer,
      c.origin.phase, c.candidate.implementation, r.verdict.error,
      r.verdict.single ? "the bound of one element" : "the bound", r.verdict.bound,
      r.verdict.output, element_text(r.verdict), write(c));
}

Reducer::Finding Reducer::report(Reduction r) const {
  ordered_json j = {{"operations", r.operations}, {"judged", r.judged}};
  if (r.blame == Blame::kNobody) {
    j["blame"] = "rounding";
    return {rounding_text(r), j};
  }
  j["layer"] = r.layer;
  j["operation"] = r.operation;
  if (r.blame == Blame::kBetween) {
    j["blame"] = "between operations";
    j["value"] = r.value;
    return {fmt::format("every operation is right alone, yet the step is not. The first value that "
                        "differs is '{}': {}. Nothing was written.",
                        r.value, r.explanation),
            j};
  }
  r.found->origin.against = against_;
  j["blame"] = "operation";
  j["candidate"] = r.found->candidate.implementation;
  j["verdict"] = to_json(r.verdict);
  j["case"] = folder_;
  return {operation_text(r), j};
}

Reducer::Finding Reducer::report(const SynchronizationFault& h, int64_t step) const {
  const ordered_json j = {{"blame", "between operations"}, {"value", h.value}};
  return {fmt::format(
              "step {}: every operation is right while {} waits after each, yet the step as it is "
              "trained is not: the first value that differs is '{}', by {:.3g}, allowed {:.3g}. A "
              "race, "
              "or a recording that replays other addresses; device.graph_capture = false tells "
              "which. Nothing was written.",
              step + 1, session_.device->id(), h.value, h.difference, h.allowed),
          j};
}

}  // namespace runtime::verify
