// Checks that what a rank writes of its collectives is read again, and that other texts are
// refused.
#include "tools/diagnose/read.h"

#include <gmock/gmock.h>

#include "runtime/error.h"
#include "runtime/watch/call_plan.h"
#include "tests/runtime/watch/ranks.h"

namespace tools::diagnose {
namespace {

using namespace runtime::watch;
using runtime::DataError;

using testing::HasSubstr;

// Rank 1 of 4, in the tensor axis with rank 0, has completed a call and waits for another.
CollectivesFile example() {
  FlightRecorder recorder(1);
  PlanItem reduced, waited{.waits = true};
  reduced.call = {.kind = RT_ALL_REDUCE, .dtype = RT_FLOAT32, .reduction = RT_SUM, .count = 7};
  reduced.call.micro_batch = 2;
  reduced.call.set_label("bucket 0");
  reduced.call.position = waited.call.position = 1;
  recorder.at_step(812, std::make_shared<const Plan>(Plan{reduced, waited}));
  recorder.end(recorder.begin(
      all_reduce(7), 0, {.label = "bucket 0", .micro_batch = 2, .place = recorder.next_planned()}));
  rt_collective barrier{};
  barrier.size = sizeof(barrier);
  barrier.kind = RT_BARRIER;
  barrier.peer = -1;
  recorder.begin(barrier, 1);
  Groups groups{.names = {"the data axis", "the tensor axis"}};
  groups.members = [](uint64_t communicator, int) {
    return communicator == 0 ? std::vector<int>{1, 3} : std::vector<int>{0, 1};
  };
  return file_of(recorder.records(), groups, 4);
}

TEST(CollectivesFile, IsReadAsItWasWritten) {
  const CollectivesFile file = example(), read = read_collectives(to_json(file));
  EXPECT_EQ(read.rank, 1);
  EXPECT_EQ(read.world_size, 4);
  EXPECT_EQ(read.host, file.host);
  EXPECT_NE(read.host, "");
  EXPECT_EQ(read.written_ns, file.written_ns);
  EXPECT_FALSE(read.lost);
  ASSERT_EQ(read.communicators.size(), 2u);
  EXPECT_EQ(read.communicators[1].name, "the tensor axis");
  EXPECT_THAT(read.communicators[0].ranks, testing::ElementsAre(1, 3));
  ASSERT_EQ(read.records.size(), 2u);
  for (const size_t i : {0, 1}) {
    const CollectiveRecord &a = read.records[i], &b = file.records[i];
    EXPECT_EQ(describe(a), describe(b));
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.position, b.position);
    EXPECT_EQ(a.channel(), b.channel());
    EXPECT_EQ(a.sequence, b.sequence);
    EXPECT_EQ(a.reduction, b.reduction);
    EXPECT_EQ(a.start_ns, b.start_ns);
    EXPECT_EQ(a.wait_ns, b.wait_ns);
    EXPECT_EQ(a.end_ns, b.end_ns);
  }
}

TEST(CollectivesFile, HasThePlanOfTheStep) {
  const CollectivesFile file = example(), read = read_collectives(to_json(file));
  EXPECT_EQ(read.step, 812);
  ASSERT_EQ(read.plan.size(), 2u);
  EXPECT_EQ(order_of(read.plan), order_of(file.plan));
  EXPECT_EQ(text_of(read.plan[0].call),
            "bucket 0: all_reduce (7 float32, micro-batch 2), reduction 1, communicator 0");
  EXPECT_EQ(read.plan[0].call.position, 1);
  EXPECT_TRUE(read.plan[1].waits);
  EXPECT_EQ(read.plan[1].call.position, 1);
}

TEST(CollectivesFile, TimesAreThoseOfTheWallClock) {
  const CollectivesFile file = example();
  constexpr int64_t k2020 = 1'577'836'800'000'000'000, kMinute = 60'000'000'000;
  EXPECT_GT(file.written_ns, k2020);
  EXPECT_LE(file.records[0].start_ns, file.records[0].end_ns);
  EXPECT_GT(file.records[0].start_ns, file.written_ns - kMinute);
  EXPECT_EQ(file.records[1].end_ns, 0) << "it still runs";
}

std::string refused(std::string text, const std::string& part, const std::string& other) {
  text.replace(text.find(part), part.size(), other);
  try {
    read_collectives(text);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

TEST(CollectivesFile, WhatNoRankHasWrittenIsRefused) {
  const std::string text = to_json(example());
  EXPECT_EQ(refused(text, "{", "{"), "");
  EXPECT_THAT(refused(text, "{", "["), HasSubstr("parse error"));
  EXPECT_THAT(refused(text, "\"rank\": 1", "\"rank\": 4"), HasSubstr("rank 4 of 4 is no rank"));
  EXPECT_THAT(refused(text, "\"rank\": 1", "\"rank\": \"x\""), HasSubstr("type must be number"));
  EXPECT_THAT(refused(text, "\"rank\": 1", "\"rang\": 1"), HasSubstr("'rank' not found"));
  EXPECT_THAT(refused(text, "{\"wait\": 1}", "{\"wait\": 2}"),
              HasSubstr("waits for call 2, expected one of the 1 before"));
  EXPECT_THAT(refused(text, "_version\": 1", "_version\": 9"), HasSubstr("is 9, expected 1"));
  EXPECT_THAT(refused(text, "all_reduce", "all_confuse"), HasSubstr("'all_confuse' is not known"));
  EXPECT_THAT(refused(text, "\"world_size\": 4", "\"world_size\": 3"), HasSubstr("has rank 3"));
  EXPECT_THAT(refused(text, "[1, 3]", "[1, 1]"), HasSubstr("the data axis has a rank twice"));
}

}  // namespace
}  // namespace tools::diagnose
