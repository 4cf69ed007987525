// Checks what is read from trials, and which failures are errors.
#include "tools/tune/batch_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace tools::tune {
namespace {

using testing::HasSubstr;

trials::Ended ended(int code, const std::string& error) {
  trials::Ended e;
  e.exit_code = code;
  e.error = error;
  return e;
}

TEST(BatchTrial, ReadsWhatBenchPrints) {
  trials::Ended e;
  e.output =
      R"({"step_ms_median":2.5,"samples_per_second":400.0,"peak_memory_bytes_all_ranks":1024,)"
      R"("device_utilisation":87,"device_memory_bytes":4096})";
  const BatchTrial trial = judge(8, e);
  EXPECT_EQ(trial.size, 8);
  ASSERT_TRUE(trial.speed.has_value());
  EXPECT_EQ(trial.speed->step_ms, 2.5);
  EXPECT_EQ(trial.speed->samples_per_second, 400);
  EXPECT_EQ(trial.speed->memory_bytes, 1024u);
  EXPECT_EQ(trial.speed->utilisation, 87);
  EXPECT_EQ(trial.speed->device_memory_bytes, 4096u);
  e.output = R"({"step_ms_median":2,"samples_per_second":4,"peak_memory_bytes_all_ranks":1})";
  EXPECT_FALSE(judge(8, e).speed->utilisation.has_value());
}

TEST(BatchTrial, WhatDoesNotFitHasAReason) {
  const auto reason = [](const trials::Ended& e) {
    const BatchTrial trial = judge(8, e);
    EXPECT_FALSE(trial.speed.has_value());
    return trial.reason;
  };
  EXPECT_EQ(reason(ended(3, "out of host memory: 1 MiB\nmore")),
            "memory: out of host memory: 1 MiB");
  EXPECT_EQ(reason(ended(5, "takes 9 MiB, but 8 MiB of memory are available")),
            "memory: takes 9 MiB, but 8 MiB of memory are available");
  EXPECT_EQ(reason(ended(3, "this batch does not fit cuda:0: its tensors are large:\n  matmul")),
            "this batch does not fit cuda:0: its tensors are large:");
  EXPECT_THAT(reason(ended(2, "global_batch_size: out of range")), HasSubstr("refused: global_"));
  EXPECT_THAT(reason(ended(5, "the data set has 10 samples")), HasSubstr("refused: the data"));
  trials::Ended killed = ended(137, "");
  killed.signal = SIGKILL;
  EXPECT_THAT(reason(killed), HasSubstr("killed (SIGKILL)"));
  trials::Ended late = ended(143, "");
  late.signal = SIGTERM;
  late.timed_out = true;
  late.seconds = 7;
  EXPECT_EQ(reason(late), "not done after 7 s");
}

TEST(BatchTrial, OtherFailuresAreErrors) {
  for (const int code : {1, 3, 4, 6}) {
    try {
      judge(8, ended(code, "the device is not there"));
      ADD_FAILURE() << code;
    } catch (const runtime::Error& error) {
      EXPECT_EQ(static_cast<int>(error.exit_code()), code);
      EXPECT_THAT(error.what(), HasSubstr("the device is not there"));
    }
  }
  trials::Ended crashed = ended(139, "");
  crashed.signal = SIGSEGV;
  EXPECT_THROW(judge(8, crashed), runtime::Error);
}

}  // namespace
}  // namespace tools::tune
