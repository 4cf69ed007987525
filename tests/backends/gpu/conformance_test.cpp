// A gpu backend against the reference: every conformance case in float32 and float64, one test an
// operation.
#include "plugins/conformance/conformance.h"

#include <gtest/gtest.h>

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;

class GpuConformance : public testing::TestWithParam<std::string> {};

TEST_P(GpuConformance, AgreesWithTheReference) {
  const auto plugin = host::Plugin::load(GPU_PLUGIN, {});
  const host::DeviceInfo found = host::list_devices(*plugin).at(0);
  if (!found.usable()) GTEST_SKIP() << found.properties.unusable_reason;
  const auto device = host::Device::open(plugin, 0, {});
  const auto reference = host::Device::open(host::Plugin::load(REFERENCE_PLUGIN, {}), 0, {});
  const auto cases = conformance::cases_of(GetParam());
  for (const conformance::Case& c : cases) {
    const conformance::Result result = run_case(*device, *reference, c);
    EXPECT_EQ(result.outcome, conformance::Outcome::kPassed) << c.name << ": " << result.detail;
  }
  RecordProperty("cases", static_cast<int>(cases.size()));
}

INSTANTIATE_TEST_SUITE_P(Operations, GpuConformance,
                         testing::ValuesIn(conformance::covered_operations()),
                         [](const auto& info) { return info.param; });

}  // namespace
