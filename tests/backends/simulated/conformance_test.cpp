// Compares the simulated accelerator with the reference: every conformance case, one test per
// operation.
#include "plugins/conformance/conformance.h"

#include <gtest/gtest.h>

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;

std::shared_ptr<host::Device> open(const char* library, const host::DeviceOptions& options = {}) {
  return host::Device::open(host::Plugin::load(library, {}), 0, options);
}

class SimulatedConformance : public testing::TestWithParam<std::string> {};

TEST_P(SimulatedConformance, AgreesWithTheReference) {
  const auto device =
      open(SIMULATED_PLUGIN, {0, {{"max_delay_us", "5"}, {"poison", "true"}, {"seed", "5"}}});
  const auto reference = open(REFERENCE_PLUGIN);
  const conformance::Summary summary =
      run_cases(*device, *reference, conformance::cases_of(GetParam()));
  EXPECT_EQ(summary.failed, 0) << summary.text();
  EXPECT_EQ(summary.skipped, 0) << summary.text();  // both use the same kernels
  EXPECT_GT(summary.passed, 0);
}

INSTANTIATE_TEST_SUITE_P(Operations, SimulatedConformance,
                         testing::ValuesIn(conformance::covered_operations()),
                         [](const auto& info) { return info.param; });

}  // namespace
