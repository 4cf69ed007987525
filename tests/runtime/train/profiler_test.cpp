// Which steps are recorded, and that recording changes no number.
#include "runtime/train/profiler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/runtime/train/profiled_steps.h"

namespace runtime::train {
namespace {

using exec::SpanKind;
using testing::ElementsAre;

// "." ignored, "w" warm-up, "R" recorded.
std::string uses(const config::Profiling& profiling, int steps) {
  std::string text;
  for (int i = 0; i < steps; ++i) text += ".wR"[static_cast<int>(use_of_step(profiling, i))];
  return text;
}

config::Profiling schedule(int64_t wait, int64_t warmup, int64_t active, int64_t repeat) {
  return {.enabled = true, .wait = wait, .warmup = warmup, .active = active, .repeat = repeat};
}

// What torch.profiler.schedule(wait=..., warmup=..., active=..., repeat=...) answers for steps 0,
// 1, ... (NONE, WARMUP, RECORD or RECORD_AND_SAVE).
TEST(UseOfStep, IsThatOfTorchProfilerSchedule) {
  EXPECT_EQ(uses(schedule(1, 1, 2, 1), 8), ".wRR....");
  EXPECT_EQ(uses(schedule(1, 1, 2, 2), 10), ".wRR.wRR..");
  EXPECT_EQ(uses(schedule(0, 0, 3, 1), 5), "RRR..");
  EXPECT_EQ(uses(schedule(2, 0, 1, 3), 10), "..R..R..R.");
  EXPECT_EQ(uses(schedule(0, 2, 1, 2), 8), "wwRwwR..");
}

std::vector<config::Override> overrides(const std::string& repeat) {
  return {{"profiling.enabled", "true"},
          {"profiling.wait", "1"},
          {"profiling.warmup", "1"},
          {"profiling.active", "2"},
          {"profiling.repeat", repeat}};
}

std::set<int64_t> steps_of(const Recording& recording, SpanKind kind) {
  std::set<int64_t> steps;
  for (const exec::Span& span : recording.spans) {
    if (span.kind == kind) steps.insert(span.step);
  }
  return steps;
}

class ProfilerTest : public testing::TestWithParam<const char*> {};

TEST_P(ProfilerTest, RecordsTheStepsOfTheSchedule) {
  Job job(kTiny, GetParam(), overrides("2"));
  const Recording recording = profile_steps(job, 10);
  ASSERT_EQ(recording.cycles.size(), 2u);
  EXPECT_EQ(recording.steps(), 4);
  EXPECT_EQ(recording.cycles[0].first_step, 2);
  EXPECT_EQ(recording.cycles[1].first_step, 6);
  for (const SpanKind kind : {SpanKind::kStep, SpanKind::kPrepare, SpanKind::kUpload,
                              SpanKind::kLaunch, SpanKind::kReport, SpanKind::kOperation}) {
    EXPECT_THAT(steps_of(recording, kind), ElementsAre(2, 3, 6, 7)) << static_cast<int>(kind);
  }
  for (const RecordedCycle& cycle : recording.cycles) {
    EXPECT_EQ(cycle.steps, 2);
    EXPECT_GT(cycle.wall_seconds, 0);
  }
}

// No hole is left between the beginning of a recorded step and that of the next one, except that
// the last step of the run has none.
TEST_P(ProfilerTest, TheTimeBehindAStepBelongsToIt) {
  Job job(kTiny, GetParam(), overrides("1"));
  const Recording recording = profile_steps(job, 5);
  EXPECT_THAT(steps_of(recording, SpanKind::kBetween), ElementsAre(2, 3));
  int64_t end = 0;
  for (const exec::Span& span : recording.spans) {
    if (span.kind == SpanKind::kStep) end = span.end_ns;
    if (span.kind != SpanKind::kBetween) continue;
    EXPECT_GE(span.begin_ns, end) << "behind the step";
    EXPECT_GE(span.end_ns, span.begin_ns);
    end = span.end_ns;
  }
  Job last(kTiny, GetParam(), overrides("1"));
  EXPECT_THAT(steps_of(profile_steps(last, 4), SpanKind::kBetween), ElementsAre(2));
}

TEST_P(ProfilerTest, ARunThatEndsInACycleKeepsWhatItHas) {
  Job job(kTiny, GetParam(), overrides("1"));
  const Recording recording = profile_steps(job, 3);
  ASSERT_EQ(recording.cycles.size(), 1u);
  EXPECT_EQ(recording.steps(), 1);
  Job too_short(kTiny, GetParam(), overrides("1"));
  EXPECT_EQ(profile_steps(too_short, 2).steps(), 0);
}

TEST_P(ProfilerTest, ChangesNoNumber) {
  Job plain(kTiny, GetParam()), profiled(kTiny, GetParam(), overrides("1"));
  plain.step(6);
  profile_steps(profiled, 6);
  EXPECT_TRUE(same_bits(plain.trainer->weights(), profiled.trainer->weights()));
}

INSTANTIATE_TEST_SUITE_P(Devices, ProfilerTest, testing::Values("reference", "simulated"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace runtime::train
