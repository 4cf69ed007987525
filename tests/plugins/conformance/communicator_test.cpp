// The checks find every fault of a faulty communicator, and none in a correct one.
#include "plugins/conformance/communicator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace plugins::conformance {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::StartsWith;

struct Fault {
  const char* name;
  const char* found_by;  // the name of a case
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

// Leaves out the cases with large data, which other tests run.
std::vector<CommunicatorCase> small_cases() {
  std::vector<CommunicatorCase> cases = communicator_cases();
  std::erase_if(cases, [](const CommunicatorCase& c) { return c.name.starts_with("large/"); });
  return cases;
}

// The failures that the ranks report, for all ranks.
std::vector<std::string> failures_of(const std::string& fault, int32_t size) {
  ::setenv("RUNTIME_TEST_FAULT", fault.c_str(), 1);
  const auto plugin = host::Plugin::load(FAULTY_COMMUNICATOR, {});
  std::vector<Summary> summaries(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = host::Communicator::create(
          plugin, {.rank = rank, .world_size = size, .prefix = "test", .timeout = 60s});
      // The deadline is short for faults that make ranks wait for ever.
      const auto timeout = fault.starts_with("no_") ? 2s : 60s;
      summaries[static_cast<std::size_t>(rank)] =
          run_communicator_cases({communicator, rank, size, nullptr, timeout}, small_cases());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> failures;
  for (const Summary& summary : summaries) {
    EXPECT_EQ(summary.failures.empty(), summary.failed == 0);
    failures.insert(failures.end(), summary.failures.begin(), summary.failures.end());
  }
  return failures;
}

class CommunicatorFault : public ::testing::TestWithParam<Fault> {};

TEST_P(CommunicatorFault, IsFound) {
  EXPECT_THAT(failures_of(GetParam().name, 3), Contains(StartsWith(GetParam().found_by)));
}

INSTANTIATE_TEST_SUITE_P(Of, CommunicatorFault,
                         ::testing::Values(Fault{"short", "all_reduce/float32/sum:"},
                                           Fault{"sum_for_average", "all_reduce/bfloat16/average:"},
                                           Fault{"min_for_max", "reduce_scatter/int64/max:"},
                                           Fault{"unsigned", "all_reduce/int8/min:"},
                                           Fault{"root_0", "broadcast/float32:"},
                                           Fault{"overrun", "all_reduce/int32/min:"},
                                           Fault{"any_reduction", "refuses/reduction:"},
                                           Fault{"any_peer", "refuses/peer:"},
                                           Fault{"no_barrier", "barrier:"},
                                           Fault{"no_receive", "send_receive/float32:"},
                                           Fault{"no_key", "split/reversed:"},
                                           Fault{"no_abort", "abort:"}),
                         [](const auto& info) { return info.param.name; });

TEST(CommunicatorChecks, FindNothingWithoutAFault) {
  for (const int32_t size : {1, 3}) EXPECT_TRUE(failures_of("", size).empty());
}

TEST(CommunicatorChecks, HaveNamesOfTheirOwn) {
  std::vector<std::string> names;
  for (const CommunicatorCase& c : communicator_cases()) names.push_back(c.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace plugins::conformance
