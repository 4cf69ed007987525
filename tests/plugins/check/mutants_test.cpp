// `runtime plugins check` finds every broken device, and finds nothing in good ones.
#include <gtest/gtest.h>

#include "tests/plugins/check/program.h"

namespace plugins::check {
namespace {

// A fault of mutants.cpp, and the groups of checks that have to find it.
struct Mutant {
  const char* name;
  std::vector<std::string> groups;
};

void PrintTo(const Mutant& mutant, std::ostream* stream) { *stream << mutant.name; }

const Mutant kMutants[] = {
    // Faults that a third party tried, and which nothing found.
    {"waits_for_no_event", {"events"}},
    {"reads_pageable_late", {"streams"}},
    {"is_always_complete", {"events"}},
    {"measures_no_time", {"events"}},
    {"ignores_unknown_tails", {"sizes"}},
    {"shares_the_operands", {"plans"}},
    {"counts_no_bytes", {"memory"}},
    {"ignores_options", {"devices"}},
    {"takes_the_first_device", {"devices"}},
    // The entry and the instance.
    {"speaks_every_version", {"instance"}},
    {"writes_a_long_negotiation", {"instance"}},
    {"answers_any_interface", {"instance"}},
    {"answers_any_version", {"instance"}},
    {"has_a_wrong_default", {"instance"}},
    // Devices.
    {"counts_other_devices", {"devices"}},
    {"calls_all_devices_the_same", {"devices"}},
    {"writes_no_message", {"sizes", "devices"}},
    {"needs_an_error", {"sizes"}},
    {"writes_whole_properties", {"sizes"}},
    // Memory.
    {"overcommits", {"memory"}},
    {"refuses_with_another_code", {"memory"}},
    {"promises_large_buffers", {"memory"}},
    {"aligns_to_eight", {"memory"}},
    {"never_frees", {"memory"}},
    {"has_more_free_than_total", {"memory"}},
    // Streams.
    {"does_not_synchronize", {"streams"}},
    {"drops_the_last_odd_byte", {"streams"}},
    {"copies_words", {"streams"}},
    {"waits_in_copy", {"streams"}},
    {"fills_seven_bits", {"streams"}},
    // Events.
    {"records_once", {"events"}},
    {"waits_in_the_call", {"events"}},
    {"does_not_synchronize_events", {"events"}},
    {"is_never_complete", {"events"}},
    {"measures_microseconds", {"events"}},
    {"replays_nothing", {"capture"}},
    // Kernels.
    {"ignores_tails_of_operations", {"sizes"}},
    {"writes_too_many_candidates", {"sizes"}},
    {"launches_on_a_short_struct", {"sizes"}},
    {"checks_no_launch", {"sizes"}},
    {"leaks_in_launch", {"plans"}},
    {"accepts_everything", {"plans"}},
    {"fuses_what_nobody_asked_for", {"plans"}},
    {"refuses_without_a_reason", {"kernels"}},
    {"claims_any_tolerance", {"kernels"}},
    {"claims_every_in_place_pair", {"kernels"}},
    {"needs_fewer_bytes", {"kernels"}},
    {"forgets_to_launch", {"kernels"}},
    // Handles.
    {"fills_short_handles", {"native"}},
    {"tells_no_kind", {"native"}},
    {"tells_one_handle", {"native"}},
    {"tells_others_each_time", {"native"}},
    // What would end or block the process of the runtime.
    {"throws", {"plans"}},
};

std::vector<std::string> arguments_for(const Mutant& mutant) {
  std::vector<std::string> arguments = {MUTANT, "--quick", "--limit", "60"};
  for (const std::string& group : mutant.groups) {
    arguments.emplace_back("--only");
    arguments.push_back(group);
  }
  return arguments;
}

class Mutants : public testing::TestWithParam<Mutant> {};

TEST_P(Mutants, IsFound) {
  const ProgramResult result = run_check(arguments_for(GetParam()), GetParam().name);
  EXPECT_EQ(result.exit_code, 3) << result.text;
  EXPECT_NE(result.text.find("\nfailed: "), std::string::npos) << result.text;
}

INSTANTIATE_TEST_SUITE_P(Faults, Mutants, testing::ValuesIn(kMutants),
                         [](const auto& info) { return info.param.name; });

// The mutants differ from this device in one function only, so it must pass, or the tests above
// would show nothing.
TEST(Check, FindsNothingInTheDeviceBehindTheMutants) {
  const ProgramResult result = run_check({MUTANT, "--quick"}, "");
  EXPECT_EQ(result.exit_code, 0) << result.text;
}

TEST(Check, AsksForNoLargerBufferThanTheDeviceNames) {
  ::setenv("RUNTIME_SIMULATED_LARGEST_BUFFER", "1048576", 1);
  const ProgramResult result = run_check(arguments_for({"", {"memory", "streams", "plans"}}), "");
  ::unsetenv("RUNTIME_SIMULATED_LARGEST_BUFFER");
  EXPECT_EQ(result.exit_code, 0) << result.text;
}

// A plugin without a device that works here is no worse for it, but it is said.
TEST(Check, SaysThatNoDeviceCouldBeTried) {
  const ProgramResult result = run_check({MUTANT, "--quick", "--require", "mlp"}, "cannot_be_used");
  EXPECT_EQ(result.exit_code, 3) << result.text;
  EXPECT_NE(result.text.find(" 0 failed"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find(
                "nothing that needs a device was tried: simulated:0 is not usable here: no driver"),
            std::string::npos)
      << result.text;
  EXPECT_NE(result.text.find("required: mlp does not train"), std::string::npos) << result.text;
}

class GoodPlugins : public testing::TestWithParam<const char*> {};

TEST_P(GoodPlugins, Pass) {
  const ProgramResult result = run_check({GetParam(), "--quick"}, "");
  EXPECT_EQ(result.exit_code, 0) << result.text;
}

INSTANTIATE_TEST_SUITE_P(
    Libraries, GoodPlugins,
    testing::Values(PLUGINS "/libbackend_reference.so", FIXTURES "/libexample.so",
                    FIXTURES "/libtemplate_device.so", PLUGINS "/libcollectives_local.so",
                    FIXTURES "/libtemplate_communicator.so", FIXTURES "/libtemplate_operation.so",
                    FIXTURES "/liboperation_set.so", FIXTURES "/liblibsvm_reader.so"));

}  // namespace
}  // namespace plugins::check
