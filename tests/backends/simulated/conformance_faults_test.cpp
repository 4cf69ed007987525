// The conformance checks find the faults of a device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "plugins/conformance/conformance.h"
#include "rt/operations.h"
#include "rt/sdk/definitions.h"

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;
using conformance::Outcome;
using testing::HasSubstr;

conformance::Result run_first(const char* operation, std::map<std::string, std::string> options) {
  options["max_delay_us"] = "0";
  const auto device =
      host::Device::open(host::Plugin::load(SIMULATED_PLUGIN, {}), 0, {0, std::move(options)});
  const auto reference = host::Device::open(host::Plugin::load(REFERENCE_PLUGIN, {}), 0);
  return run_case(*device, *reference, conformance::cases_of(operation).front());
}

TEST(ConformanceFaults, AWrongResult) {
  const auto result = run_first(RT_OP_MATMUL, {{"corrupt", "matmul"}});
  EXPECT_EQ(result.outcome, Outcome::kFailed);
  EXPECT_THAT(result.detail, HasSubstr("output 0 differs from the reference by inf"));
}

TEST(ConformanceFaults, AByteBehindAnOutput) {
  const auto result = run_first(RT_OP_CONV2D, {{"overrun", "conv2d"}});
  EXPECT_EQ(result.outcome, Outcome::kFailed);
  EXPECT_THAT(result.detail, HasSubstr("output 0: a byte 0 behind its"));
}

TEST(ConformanceFaults, ALaunchThatFails) {
  const auto result = run_first(RT_OP_ADD, {{"fail_launch", "add"}});
  EXPECT_EQ(result.outcome, Outcome::kFailed);
  EXPECT_THAT(result.detail, HasSubstr("injected fault"));
}

TEST(ConformanceFaults, AWrongForwardShowsInItsBackward) {
  const auto result = run_first(RT_OP_MAX_POOL2D_BACKWARD, {{"fail_launch", "max_pool2d"}});
  EXPECT_EQ(result.outcome, Outcome::kFailed);
}

TEST(ConformanceFaults, ARefusedMandatoryOperation) {
  const auto result = run_first(RT_OP_ADD, {{"refuse", "add"}});
  EXPECT_EQ(result.outcome, Outcome::kFailed);
  EXPECT_THAT(result.detail, HasSubstr("refuses a mandatory operation"));
}

TEST(ConformanceFaults, AnotherRefusalIsSkippedWithItsReason) {
  const auto result = run_first(RT_OP_CONV2D, {{"refuse", "conv2d"}});
  EXPECT_EQ(result.outcome, Outcome::kSkipped);
  EXPECT_THAT(result.detail, HasSubstr("'refuse'"));
}

std::string failed_launch() {
  const auto device = host::Device::open(host::Plugin::load(SIMULATED_PLUGIN, {}), 0,
                                         {0, {{"fail_launch", "add"}}});
  return check_failed_launch(*device, conformance::cases_of(RT_OP_ADD).front());
}

TEST(ConformanceFaults, EventsReportALaunchThatFails) { EXPECT_EQ(failed_launch(), ""); }

TEST(ConformanceFaults, EventsThatAreSilentAboutIt) {
  ::setenv("RUNTIME_SIMULATED_MINOR", "1", 1);
  EXPECT_THAT(failed_launch(), HasSubstr("event_synchronize answers that all is well"));
  ::unsetenv("RUNTIME_SIMULATED_MINOR");
}

TEST(ConformanceFaults, TheSummaryCountsAndNames) {
  const auto device = host::Device::open(host::Plugin::load(SIMULATED_PLUGIN, {}), 0,
                                         {0, {{"refuse", "softmax"}, {"corrupt", "fill"}}});
  const auto reference = host::Device::open(host::Plugin::load(REFERENCE_PLUGIN, {}), 0);
  std::vector<conformance::Case> cases;
  for (const char* operation : {RT_OP_SOFTMAX, RT_OP_FILL, RT_OP_COPY}) {
    cases.push_back(conformance::cases_of(operation).front());
  }
  const conformance::Summary summary = run_cases(*device, *reference, cases);
  EXPECT_EQ(summary.passed, 1);
  EXPECT_EQ(summary.skipped, 1);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_THAT(summary.text(), HasSubstr("failed: fill/float32/"));
  EXPECT_THAT(summary.text(), HasSubstr("skipped: softmax/float32/"));
}

TEST(ConformanceCases, HaveUniqueNamesAndCoverEveryOperation) {
  std::set<std::string> names;
  for (const conformance::Case& c : conformance::all_cases()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    EXPECT_EQ(c.inputs.size(), c.operation.inputs.size()) << c.name;
  }
  const std::vector<std::string> covered = conformance::covered_operations();
  for (const auto family : rt::sdk::kDefinitions) {
    for (const rt::sdk::Definition& row : family)
      EXPECT_THAT(covered, testing::Contains(row.name)) << "no case";
  }
  EXPECT_GT(names.size(), 700u);
}

}  // namespace
