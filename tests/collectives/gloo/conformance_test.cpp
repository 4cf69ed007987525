// The checks that every communicator must pass, on processes joined by Gloo.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/collectives/support/job.h"

namespace collectives::testing {
namespace {

class GlooConformance : public ::testing::TestWithParam<int> {};

TEST_P(GlooConformance, EveryCase) {
  expect_success({.command = {CONFORMANCE_RANK, GLOO_PLUGIN}, .ranks = GetParam()});
}

// As on several machines, where ranks send small vectors as messages.
TEST(GlooMessages, EveryCase) {
  for (const int ranks : {2, 3})
    expect_success(
        {.command = {CONFORMANCE_RANK, GLOO_PLUGIN, "shared_memory=off"}, .ranks = ranks});
}

// As on two or three machines; the last one has fewer ranks than the others, or one.
TEST(GlooHosts, EveryCase) {
  for (const auto& [ranks, per_host] : {std::pair(4, 2), {5, 3}, {3, 2}, {6, 2}})
    expect_success(
        {.command = {CONFORMANCE_RANK, GLOO_PLUGIN, "ranks_per_host=" + std::to_string(per_host)},
         .ranks = ranks});
}

INSTANTIATE_TEST_SUITE_P(Ranks, GlooConformance, ::testing::Values(1, 2, 3, 4, 5));

}  // namespace
}  // namespace collectives::testing
