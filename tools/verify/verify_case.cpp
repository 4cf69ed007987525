// The command verify --case: runs a recorded operation again.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "runtime/error.h"
#include "runtime/launch/open_device.h"
#include "runtime/system/control_groups.h"
#include "runtime/train/open.h"
#include "tools/verify/replay.h"
#include "tools/verify/verify.h"

namespace runtime::verify {

namespace {

using nlohmann::ordered_json;

// Returns the configuration of the device: that of CONFIG if one is given. Otherwise a device of
// the plugin on which the case was found has the options of the case.
config::Config device_config(const VerifyArguments& arguments, const Case& c) {
  config::Config config;
  const bool given = !arguments.config.path.empty();
  if (given) config = arguments.config.load();
  if (!given && !arguments.config.overrides.empty())
    throw ConfigurationError("verify --case: --set overrides a CONFIG; name one before --case");
  config.launch.devices = {arguments.device.empty() ? c.device.id : arguments.device};
  config.device.index.clear();
  const std::string& name = config.launch.devices[0];
  if (given || name.substr(0, name.find(':')) != c.device.plugin) return config;
  config.device.options[c.device.plugin] = c.device.options;
  config.device.threads = std::min<int>(c.device.threads, system::usable_processors());
  return config;
}

void print(const Case& c, const std::string& device, const Replay& replay) {
  say("{}: layer '{}' ({}), step {} of {}, found on {} ({})\n",
      verify::describe(c.isolated.operation), c.origin.layer, c.origin.phase, c.origin.step + 1,
      c.origin.config, c.device.id, c.device.name);
  if (!replay.note.empty()) say("note: {}\n", replay.note);
  for (const Replayed& r : replay.candidates) {
    const Verdict& v = r.verdict;
    say("{}  {}{}  {}: error {:.3g}, bound {:.3g}{}, worst in output {} at {}\n", device,
        r.candidate, r.recorded ? ", the recorded one" : "", v.right ? "right" : "WRONG", v.error,
        v.bound, v.single ? " (of one element)" : "", v.output, element_text(v));
  }
}

ordered_json to_json(const Case& c, const std::string& folder, const std::string& device,
                     const Replay& replay) {
  ordered_json candidates = ordered_json::array();
  for (const Replayed& r : replay.candidates) {
    ordered_json j = {{"candidate", r.candidate}, {"recorded", r.recorded}};
    j.update(to_json(r.verdict));
    candidates.push_back(j);
  }
  return {{"case", folder},          {"operation", c.isolated.operation.name},
          {"layer", c.origin.layer}, {"device", device},
          {"right", replay.right()}, {"note", replay.note},
          {"candidates", candidates}};
}

}  // namespace

void run_case(const VerifyArguments& arguments) {
  const Case c = read_case(arguments.case_folder);
  const config::Config config = device_config(arguments, c);
  const auto registry = launch::open_registry(config, cli::host_services());
  const auto device = launch::open_device(config, *registry, 0, nullptr);
  const Judge judge(open_definition(config, *registry));
  const Replay replay = verify::replay(device, judge, c, arguments.candidate);
  registry->throw_findings();
  if (arguments.json)
    std::cout << to_json(c, arguments.case_folder, device->id(), replay).dump() << std::endl;
  else
    print(c, device->id(), replay);
  if (replay.right()) return;
  const auto wrong = std::count_if(replay.candidates.begin(), replay.candidates.end(),
                                   [](const auto& r) { return !r.verdict.right; });
  throw NumericError(fmt::format(
      "verify: {} is beyond the bound in {} of {} candidates on {}; {} in float64 is what was "
      "expected",
      c.isolated.operation.name, wrong, replay.candidates.size(), device->id(), c.definition));
}

}  // namespace runtime::verify
