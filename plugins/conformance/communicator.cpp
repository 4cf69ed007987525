// Runs the cases of a communicator in order on all ranks, and ends when they have lost step.
#include "plugins/conformance/communicator.h"

#include "plugins/conformance/session.h"

namespace plugins::conformance {
namespace {

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "; ") + line;
  return text;
}

// `in_step`: whether all ranks have made the same calls, so that they can run further cases.
Result run(const CommunicatorWorld& world, const CommunicatorCase& c, bool& in_step) {
  in_step = true;
  std::vector<std::string> findings;
  try {
    Session session(world);
    try {
      c.body(session);
      findings = session.findings();
    } catch (const Skip& skip) {
      return {Outcome::kSkipped, skip.what(), 0, 0.0};
    } catch (const std::exception& e) {
      findings = session.findings();
      findings.push_back(e.what());
      in_step = false;
    }
  } catch (const std::exception& e) {
    findings.push_back(e.what());
    in_step = false;
  }
  if (!findings.empty()) return {Outcome::kFailed, join(findings), 0, 0.0};
  return {Outcome::kPassed, "", 1, 0.0};
}

}  // namespace

std::vector<CommunicatorCase> communicator_cases() {
  std::vector<CommunicatorCase> cases = data_cases();
  for (auto part : {behaviour_cases(), split_cases()}) {
    cases.insert(cases.end(), part.begin(), part.end());
  }
  return cases;
}

Result run_communicator_case(const CommunicatorWorld& world, const CommunicatorCase& c) {
  bool in_step = true;
  return run(world, c, in_step);
}

Summary run_communicator_cases(const CommunicatorWorld& world,
                               const std::vector<CommunicatorCase>& cases) {
  Summary summary;
  bool in_step = true;
  for (std::size_t i = 0; i < cases.size() && in_step; ++i) {
    const Result result = run(world, cases[i], in_step);
    const std::string line = cases[i].name + ": " + result.detail;
    summary.candidates += result.candidates;
    if (result.outcome == Outcome::kPassed) ++summary.passed;
    if (result.outcome == Outcome::kSkipped) ++summary.skipped, summary.skips.push_back(line);
    if (result.outcome == Outcome::kFailed) ++summary.failed, summary.failures.push_back(line);
    if (!in_step && i + 1 < cases.size()) {
      summary.failures.push_back("the ranks are out of step: " +
                                 std::to_string(cases.size() - i - 1) + " cases were not run");
    }
  }
  return summary;
}

}  // namespace plugins::conformance
