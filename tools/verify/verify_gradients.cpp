// The command verify --gradients: checks the layers of plugins.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "runtime/error.h"
#include "runtime/launch/open_device.h"
#include "runtime/model/layer_types.h"
#include "tools/verify/check_gradients.h"
#include "tools/verify/verify.h"

namespace runtime::verify {

namespace {

using nlohmann::ordered_json;

// The device of the configuration if it computes float64, else the one that defines operations.
std::shared_ptr<plugins::host::Device> device_for(const config::Config& config,
                                                  const plugins::host::Registry& registry) {
  auto device = launch::open_device(config, registry, 0, nullptr);
  const bool float64 = device->properties().compute_dtypes & RT_DTYPE_BIT(RT_FLOAT64);
  return float64 ? device : open_definition(config, registry);
}

std::string text_of(const GradientCheck& c) {
  return fmt::format(
      "layer '{}', operation {}, gradient of '{}': relative error {:.2e}, worst at [{}]: {:.9g}, "
      "central difference {:.9g}",
      c.layer, c.operation, c.operand, c.error, fmt::join(c.index, ", "), c.gradient, c.difference);
}

ordered_json to_json(const GradientCheck& c) {
  return {{"layer", c.layer},       {"operation", c.operation},  {"operand", c.operand},
          {"error", c.error},       {"right", c.right()},        {"index", c.index},
          {"gradient", c.gradient}, {"difference", c.difference}};
}

void print(const std::vector<GradientCheck>& checks, const std::string& device, bool json) {
  if (json) {
    ordered_json list = ordered_json::array();
    for (const GradientCheck& c : checks) list.push_back(to_json(c));
    std::cout << ordered_json{{"device", device}, {"gradients", std::move(list)}}.dump()
              << std::endl;
    return;
  }
  for (const GradientCheck& c : checks) say("{}  {}\n", c.right() ? "ok   " : "WRONG", text_of(c));
  say("{} gradients of operations of plugins compared on {}, allowed {:.0e}\n", checks.size(),
      device, GradientCheck::kTolerance);
  std::fflush(stdout);
}

}  // namespace

void verify_gradients(const VerifyArguments& arguments) {
  const config::Config config = arguments.config.load();
  const auto registry = launch::open_registry(config, cli::host_services());
  const auto device = device_for(config, *registry);
  const auto checks = check_gradients(model::model_from_config(config.model), device);
  registry->throw_findings();
  if (checks.empty()) {
    throw ConfigurationError(
        "verify --gradients: no layer of the model has an operation of a plugin (a type with a "
        "dot, "
        "\"<plugin>.<name>\"), and the others are tested with the program; expected at least one");
  }
  print(checks, device->id(), arguments.json);
  const auto wrong =
      std::find_if(checks.begin(), checks.end(), [](const GradientCheck& c) { return !c.right(); });
  if (wrong != checks.end())
    throw NumericError("verify: a gradient is not that of the formula: " + text_of(*wrong) +
                       "; the plugin has to be corrected");
}

}  // namespace runtime::verify
