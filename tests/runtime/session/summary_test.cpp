// Checks the last lines of a run.
#include "runtime/session/summary.h"

#include <gmock/gmock.h>

#include <cmath>

#include "runtime/train/formatted.h"
#include "tests/runtime/support/devices.h"

namespace runtime::session {
namespace {

using train::formatted;

TEST(Summary, SaysWhatWasMeasured) {
  test::TemporaryFolder folder;
  folder.write("weights.safetensors", "");
  folder.write("metrics.jsonl", "");
  std::filesystem::create_directory(folder.path() / "checkpoints");
  RunResult r;
  r.seconds = 83.4;
  r.epochs = 4;
  r.epoch_seconds = 20.5;
  r.cost = {100, 0.0125, {}};
  r.best = {0.875, 1200, 0.25, 0.75};
  r.joules = 7200;
  r.tokens_per_second = 128000;
  r.mfu = 0.4125;
  EXPECT_EQ(summary(r, "f1", folder.path()),
            "best validation f1: 0.8750, loss 0.2500, accuracy 0.7500, after step 1200\n"
            "time: 1 min 23 s (20.5 s an epoch), 12.500 ms a step, 128000 tokens/s, MFU 41.2%, "
            "about 2.0 Wh of the device\n"
            "files in " +
                folder.path().string() + ": checkpoints/ metrics.jsonl weights.safetensors");
}

TEST(Summary, LeavesOutWhatIsNotKnown) {
  test::TemporaryFolder folder;
  RunResult r;
  r.seconds = 0.25;
  EXPECT_EQ(summary(r, "loss", folder.path()),
            "time: 250 ms\nfiles in " + folder.path().string() + ":");
  r.unfinished_loss = 0.5;
  r.unfinished_after = 40;
  r.steps = 55;
  EXPECT_THAT(summary(r, "loss", folder.path()),
              testing::StartsWith("training loss: 0.5000, the mean of steps 41 to 55 of an "
                                  "unfinished epoch\ntime: "));
  r.seconds = 7260;
  EXPECT_THAT(summary(r, "loss", folder.path()), testing::HasSubstr("time: 2 h 1 min\n"));
}

TEST(Summary, HasTheAccuracyOfTheBestAndOfTheLastValidation) {
  RunResult r;
  r.best = {0.25, 4, 0.25, 0.75};
  r.validation = {.loss = 0.5, .accuracy = 0.5};
  r.validation_accuracy = 0.5;
  r.validated = 8;
  EXPECT_THAT(summary(r, "loss", "nowhere"),
              testing::StartsWith("best validation loss: 0.2500, accuracy 0.7500, after step 4\n"
                                  "last validation loss: 0.5000, accuracy 0.5000, after step 8\n"));
  r.validated = 4;
  r.best_after = 2;
  EXPECT_THAT(summary(r, "loss", "nowhere"),
              testing::StartsWith("best validation loss: 0.2500, accuracy 0.7500, after step 4 (of "
                                  "those after step 2)\ntime: "));
}

TEST(Formatted, NanHasNoSign) {
  EXPECT_EQ(formatted("%.4f %g", -std::nan(""), -std::nan("")), "nan nan");
  EXPECT_EQ(formatted("%.1f %s %d", -0.5, "a", -1), "-0.5 a -1");
}

}  // namespace
}  // namespace runtime::session
