// The communicator checks on 1 to 5 threads, in host memory and in device memory.
#include "plugins/conformance/communicator.h"
#include "tests/collectives/local/ranks.h"
#include "tests/collectives/support/memory.h"

namespace collectives::local::testing {
namespace {

namespace conformance = plugins::conformance;

void run_cases(int32_t size, const std::shared_ptr<host::Device>& device) {
  collectives::testing::keep_freed_memory();
  on_ranks(size, [&](const CommunicatorPtr& communicator, int32_t rank) {
    const conformance::Summary summary = run_communicator_cases({communicator, rank, size, device},
                                                                conformance::communicator_cases());
    EXPECT_EQ(summary.failed, 0) << summary.text();
    EXPECT_TRUE(size == 1 || summary.skipped == 0) << summary.text();  // local has all features
    EXPECT_GT(summary.passed, 100);
  });
}

class LocalConformance : public ::testing::TestWithParam<int32_t> {};

TEST_P(LocalConformance, InHostMemory) { run_cases(GetParam(), nullptr); }

TEST_P(LocalConformance, InDeviceMemoryThatTheHostCanTouch) {
  const auto plugin = host::Plugin::load(REFERENCE_PLUGIN, {});
  run_cases(GetParam(), host::Device::open(plugin, 0));
}

INSTANTIATE_TEST_SUITE_P(Ranks, LocalConformance, ::testing::Values(1, 2, 3, 4, 5));

}  // namespace
}  // namespace collectives::local::testing
