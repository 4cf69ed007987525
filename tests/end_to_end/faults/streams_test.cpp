// Standard streams that are closed, full or without a reader.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "tests/end_to_end/faults/job.h"

namespace runtime::faults {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

// "" stands for one rank.
class Streams : public JobTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (*GetParam() != '\0' && !has_plugin(GetParam()))
      GTEST_SKIP() << "the plugin " << GetParam() << " was not built";
  }
  // The training ends in time, has saved everything, and was not restarted.
  ProcessResult train_with(const Before& before, Words settings = {}) {
    std::filesystem::remove_all(path("run"));
    settings.insert(settings.end(), {"training.epochs=300", "launch.max_restarts=3"});
    ProcessResult result = ranks(GetParam(), 2, settings, before)->wait(seconds(60));
    EXPECT_TRUE(std::filesystem::exists(path("run/weights.safetensors"))) << result.err;
    EXPECT_THAT(run_file("metrics.jsonl"), HasSubstr("\"epoch\":299"));
    EXPECT_THAT(result.err, Not(HasSubstr("restart 1")));
    EXPECT_TRUE(processes().empty());
    return result;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Streams, testing::Values("", "local", "gloo", "mpi"),
                         [](const auto& info) {
                           return *info.param == '\0' ? "one" : std::string(info.param);
                         });

TEST_P(Streams, ClosedOnesHangNothing) {
  for (int closed = 1; closed < 8; ++closed) {
    SCOPED_TRACE("closed: " + std::to_string(closed) + ", 1 for input, 2 for output, 4 for errors");
    const ProcessResult result = train_with([closed] {
      for (int stream = 0; stream < 3; ++stream)
        if ((closed & 1 << stream) != 0) close(stream);
    });
    EXPECT_EQ(result.exit_code, (closed & 2) != 0 ? 5 : 0) << result.err;
    if (closed == 2) {
      EXPECT_THAT(result.err, HasSubstr("standard output"));
    }
  }
}

TEST_P(Streams, AClosedOneThatNothingIsWrittenToIsNoError) {
  const ProcessResult result = train_with([] { close(STDOUT_FILENO); }, {"metrics.progress=off"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_P(Streams, AFullDiskUnderTheOutputIsSaidAtTheEnd) {
  const ProcessResult result = train_with([] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); });
  EXPECT_EQ(result.exit_code, 5) << result.err;
  EXPECT_THAT(result.err, HasSubstr("standard output"));
}

TEST_P(Streams, AFullDiskUnderTheErrorsHangsNothing) {
  const ProcessResult result = train_with([] { dup2(open("/dev/full", O_WRONLY), STDERR_FILENO); });
  EXPECT_EQ(result.exit_code, 0);
}

TEST_P(Streams, RanksThatAreProcessesHaveLogs) {
  const ProcessResult result =
      ranks(GetParam(), 2, {"training.epochs=2", "launch.log_folder=logs"})->wait(seconds(60));
  if (std::string(GetParam()) != "gloo") {
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr("launch.log_folder"));
    return;
  }
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string log = test::read_text(path("logs/rank0.log"));
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) EXPECT_THAT(log, HasSubstr(line + "\n"));
  EXPECT_THAT(log, HasSubstr("done: "));
  EXPECT_TRUE(std::filesystem::exists(path("logs/rank1.log")));
}

TEST_P(Streams, AReaderThatHasEndedIsSaidAtTheEnd) {
  const ProcessResult result = train_with([] {
    int ends[2];
    if (pipe(ends) != 0) _exit(126);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
  });
  EXPECT_EQ(result.exit_code, 141) << result.err;
  // The launcher of processes passes their output on; that nobody reads it is no news to them.
  if (*GetParam() == '\0' || std::string(GetParam()) == "local") {
    EXPECT_THAT(result.err, HasSubstr("standard output"));
  }
}

}  // namespace
}  // namespace runtime::faults
