// Checks that every number of a profile is read.
#include "tools/report/read_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/error.h"
#include "tests/tools/report/files.h"

namespace tools::report {
namespace {

using testing::HasSubstr;

constexpr char kProfile[] = R"({"format":1,"world_size":2,"ranks":[{"rank":1,"device":"cpu:0",
  "steps":[10,59],"step_ns":9e6,"phases":{"forward_ns":3e6,"backward_ns":5e6,"update_ns":1e5},
  "communication":{"exposed_ns":2e5,"hidden_ns":4e5,"bytes":516992},"data_wait_ns":1e4,
  "cpu_utilisation":1.9,"device_utilisation":null,
  "operations":[{"name":"matmul","layer":"fc1","phase":"forward","implementation":"gemm","calls":1,
                 "time_ns":1e6,"share":0.1,"flops":2e9,"bytes":4e6,"roofline_share":null},
                {"name":"conv2d","time_ns":2e6}],
  "memory":{"persistent_bytes":100,"peak_bytes":300,
            "timeline":[{"operation":"conv2d","bytes":250},{"operation":1,"bytes":300},{"bytes":7}],
            "alive_at_peak":[{"name":"small","bytes":1},{"name":"large","bytes":2}]}}]})";

TEST(Profile, EveryNumberIsRead) {
  const test::Folder folder;
  const Profile p = read_profile(folder.write("profile.json", kProfile));
  EXPECT_EQ(p.world_size, 2);
  ASSERT_EQ(p.ranks.size(), 1u);
  const RankProfile& r = p.ranks[0];
  EXPECT_EQ(r.rank, 1);
  EXPECT_EQ(r.device, "cpu:0");
  EXPECT_EQ(r.last_step, 59);
  EXPECT_EQ(r.backward_ns, 5e6);
  EXPECT_EQ(r.hidden_ns, 4e5);
  EXPECT_EQ(r.cpu_utilisation, 1.9);
  EXPECT_TRUE(std::isnan(r.device_utilisation));
  ASSERT_EQ(r.operations.size(), 2u);
  EXPECT_EQ(r.operations[0].name, "conv2d") << "the longest is first";
  EXPECT_TRUE(std::isnan(r.operations[0].flops));
  EXPECT_EQ(r.operations[1].implementation, "gemm");
  EXPECT_EQ(r.timeline[1].operation, "1");
  EXPECT_EQ(r.timeline[2].operation, "2");
  EXPECT_EQ(r.alive_at_peak[0].name, "large");
}

std::string error_of(const std::string& text) {
  const test::Folder folder;
  const auto file = folder.write("profile.json", text);
  return test::message_of<runtime::DataError>([&] { read_profile(file); });
}

TEST(Profile, WhatIsWrongIsNamed) {
  EXPECT_THAT(error_of("{}"), HasSubstr("profile.format: expected a number, but it is missing"));
  EXPECT_THAT(error_of(R"({"format":2,"ranks":[]})"), HasSubstr("format: expected 1, got 2"));
  EXPECT_THAT(error_of(R"({"format":1,"ranks":[]})"), HasSubstr("ranks: expected at least one"));
  EXPECT_THAT(error_of(R"({"format":1,"ranks":[{"rank":0}]})"), HasSubstr("ranks[0].step_ns"));
  EXPECT_THAT(error_of(R"({"format":1,"ranks":[{"rank":-1e300,"step_ns":1}]})"),
              HasSubstr("ranks[0].rank"));
  EXPECT_THAT(error_of(R"({"format":1,"ranks":[{"rank":0,"step_ns":1,"steps":"x"}]})"),
              HasSubstr("ranks[0].steps: expected the first and the last step"));
  EXPECT_THAT(error_of(R"({"format":1,"ranks":[{"rank":0,"step_ns":1,"operations":[3]}]})"),
              HasSubstr("operations[0]: expected an object"));
  EXPECT_THAT(
      error_of(R"({"format":1,"ranks":[{"rank":0,"step_ns":1,"memory":{"timeline":[{}]}}]})"),
      HasSubstr("memory.timeline[0].bytes"));
}

}  // namespace
}  // namespace tools::report
