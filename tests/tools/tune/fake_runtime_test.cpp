// `runtime tune` with a script in place of `runtime`, which does what a real one does rarely: it is
// killed as if memory were used up, hangs, or breaks down.
#include "tests/runtime/cli/shell.h"

namespace runtime::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class FakeRuntime : public ShellTest {
 protected:
  // `above`: what the script does for a batch size above 100.
  test::ProcessResult tune(const std::string& above, const std::string& options) {
    folder_.write("bin/runtime", R"(#!/bin/bash
if [ "$1" = config ]; then printf '[training]\nglobal_batch_size = 16\n[launch]\nranks = 1\n'; exit; fi
for argument; do case $argument in training.global_batch_size=*) size=${argument#*=};; esac; done
echo "$size" >>sizes
if [ "$size" -gt 100 ]; then
)" + above + R"(
fi
echo "{\"samples_per_second\":$((size < 60 ? size : 120 - size)),\"step_ms_median\":1,\"peak_memory_bytes_all_ranks\":1048576}"
)");
    return shell("chmod +x bin/runtime; cp '" TUNE_PROGRAM
                 "' bin/runtime-tune\n"
                 "bin/runtime-tune batch job.toml --precision 0 " +
                 options);
  }
};

TEST_F(FakeRuntime, TrialsThatAreKilledDoNotFit) {
  const test::ProcessResult r = tune("kill -KILL $$", "");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("largest that fits: training.global_batch_size = 100\n"));
  EXPECT_THAT(r.out, testing::ContainsRegex("128 [- ]+killed .SIGKILL."));
  // The size 64 has the most samples a second of those that fit.
  EXPECT_THAT(r.out, testing::EndsWith("\n[training]\nglobal_batch_size = 64\n"));
}

TEST_F(FakeRuntime, TheBoundOfTheSearchIsNotCalledTheLargest) {
  const test::ProcessResult r = tune("exit 1", "--most 90");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("\nfits, and no larger one was tried (--most): "
                               "training.global_batch_size = 90\n"));
  EXPECT_THAT(r.out, Not(HasSubstr("largest that fits")));
}

TEST_F(FakeRuntime, TrialsThatTakeTooLongDoNotFit) {
  const test::ProcessResult r = tune("exec sleep 100", "--timeout 2 --most 104");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("largest that fits: training.global_batch_size = 100\n"));
  EXPECT_THAT(r.out, testing::ContainsRegex("104 [- ]+not done after "));
}

TEST_F(FakeRuntime, OtherFailuresEndIt) {
  const test::ProcessResult r = tune("echo 'error: the rank is lost' >&2; exit 4", "");
  EXPECT_EQ(r.exit_code, 4);
  EXPECT_THAT(r.err, HasSubstr("error: the trial with batch size 128 failed (exit code 4): the "
                               "rank is lost"));
  EXPECT_THAT(r.out, Not(HasSubstr("largest")));
}

TEST_F(FakeRuntime, ASignalEndsTheTrialAndTheSearch) {
  const test::ProcessResult r = tune("echo $$ >trial; kill -INT $PPID; exec sleep 100", "");
  EXPECT_EQ(r.exit_code, 130) << r.err;
  EXPECT_EQ(shell("[ -s trial ] && [ ! -e /proc/$(cat trial) ]").exit_code, 0)
      << "the trial was left behind";
  EXPECT_EQ(shell("tail -n 1 sizes").out, "128\n");
}

}  // namespace
}  // namespace runtime::cli
