// Compares the C example with the reference: every mandatory case passes, the others may be
// refused.
#include "plugins/conformance/conformance.h"

#include <gtest/gtest.h>

namespace {

namespace conformance = plugins::conformance;
namespace host = plugins::host;

std::shared_ptr<host::Device> open(const char* library) {
  return host::Device::open(host::Plugin::load(library, {}), 0);
}

class ExampleConformance : public testing::TestWithParam<std::string> {};

TEST_P(ExampleConformance, AgreesWithTheReference) {
  const auto device = open(EXAMPLE_PLUGIN);
  const auto reference = open(REFERENCE_PLUGIN);
  const conformance::Summary summary =
      run_cases(*device, *reference, conformance::cases_of(GetParam()));
  EXPECT_EQ(summary.failed, 0) << summary.text();
}

INSTANTIATE_TEST_SUITE_P(Operations, ExampleConformance,
                         testing::ValuesIn(conformance::covered_operations()),
                         [](const auto& info) { return info.param; });

}  // namespace
