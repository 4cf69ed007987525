// Runs a recorded case in the candidates that a device offers, and judges each.
#include "tools/verify/replay.h"

#include <algorithm>

#include "plugins/host/nearest.h"
#include "runtime/error.h"
#include "tools/verify/candidates.h"

namespace runtime::verify {

namespace {

using plugins::host::Device;

std::vector<std::string> names_of(const std::vector<Candidate>& candidates) {
  std::vector<std::string> names;
  for (const Candidate& candidate : candidates) {
    if (std::find(names.begin(), names.end(), candidate.implementation) == names.end())
      names.push_back(candidate.implementation);
  }
  return names;
}

// Returns the bounds of the case, widened if the claim of this device is wider than that of the
// recorded one.
std::vector<Bound> bounds_on(Device& device, const Candidate& candidate, const Case& c) {
  std::vector<Bound> bounds = c.bounds;
  const double claimed = claimed_tolerance(device, candidate.isolated.operation);
  for (size_t j = 0; j < bounds.size(); ++j) {
    bounds[j].tolerance =
        tolerance_with_claim(bounds[j].tolerance, c.isolated.operation.outputs[j].dtype, claimed);
  }
  return bounds;
}

// Returns the candidates to run. `note` is set to the reason if they are not the recorded candidate
// alone.
std::vector<Candidate> choose(const std::vector<Candidate>& candidates,
                              const std::vector<bool>& recorded, const std::string& wanted,
                              const std::string& device, const Case& c, std::string& note) {
  if (wanted == "all") return candidates;
  std::vector<Candidate> chosen;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (wanted.empty() ? recorded[i] : candidates[i].implementation == wanted)
      chosen.push_back(candidates[i]);
  }
  if (!chosen.empty()) return chosen;
  const std::string offered = plugins::host::join_names(names_of(candidates));
  if (!wanted.empty()) {
    throw ConfigurationError("--candidate " + wanted + ": " + device + " does this in " + offered +
                             "; name one of them, or all");
  }
  note = device + " does not offer the recorded candidate '" + c.candidate.implementation +
         "' (algorithm " + std::to_string(c.isolated.operation.algorithm) + ") of " + c.device.id +
         "; it has: " + offered + "; all of them run";
  return candidates;
}

}  // namespace

bool Replay::right() const {
  return std::all_of(candidates.begin(), candidates.end(),
                     [](const Replayed& r) { return r.verdict.right; });
}

Replay replay(const std::shared_ptr<Device>& device, const Judge& judge, const Case& c,
              const std::string& candidate) {
  judge.check(c.isolated);
  // The numbers of layouts and algorithms have a meaning for their own plugin only.
  const bool same_plugin = device->plugin().name() == c.device.plugin;
  std::string reason;
  const std::vector<Candidate> candidates =
      list_candidates(*device, c.isolated, same_plugin, &reason);
  if (candidates.empty()) {
    throw DeviceError(device->id() + " does not do " + describe(c.isolated.operation) + ": " +
                      reason + "; try another --device");
  }
  std::vector<bool> recorded;
  for (const Candidate& candidate : candidates)
    recorded.push_back(same_plugin && is_same_candidate(candidate, c.isolated));
  Replay result;
  const bool finite = has_finite_operands(c.isolated);
  for (const Candidate& candidate :
       choose(candidates, recorded, candidate, device->id(), c, result.note)) {
    const Verdict verdict = compare_all(run_candidate(device, candidate), c.expected,
                                        bounds_on(*device, candidate, c), finite);
    result.candidates.push_back({describe(*device, candidate),
                                 same_plugin && is_same_candidate(candidate, c.isolated), verdict});
  }
  return result;
}

}  // namespace runtime::verify
