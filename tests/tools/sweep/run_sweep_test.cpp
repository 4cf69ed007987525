// Checks arguments of trials, and the plan and lock of a sweep's folder.
#include "tools/sweep/run_sweep.h"

#include <gmock/gmock.h>

#include "runtime/error.h"
#include "tests/tools/sweep/files.h"

namespace tools::sweep {
namespace {

using testing::HasSubstr;

Sweep sweep_of_epochs() {
  Sweep sweep;
  sweep.config = "base.toml";
  sweep.set = {{"training.epochs", 2}};
  return sweep;
}

std::string line_of(const Sweep& sweep, int64_t rung) {
  std::string line;
  for (const std::string& word : arguments_of(sweep, {{{"optimizer.lr", 0.5}}}, rung, "run"))
    line += word + " ";
  return line;
}

TEST(ArgumentsOf, AreThoseOfARunThatGoesOn) {
  EXPECT_EQ(line_of(sweep_of_epochs(), 0),
            "train base.toml --resume auto --set training.epochs=2 --set optimizer.lr=0.5 --set "
            "job.dump_folder=\"run\" --set job.overwrite=true --set metrics.jsonl=true --set "
            "metrics.progress=\"lines\" ");
}

TEST(ArgumentsOf, ARungHasItsLengthAndAValidationAtItsEnd) {
  Sweep sweep = sweep_of_epochs();
  sweep.halving = {"epochs", {1, 3}, 3};
  EXPECT_THAT(line_of(sweep, 1), HasSubstr("--set training.epochs=3 --set job"));
  EXPECT_THAT(line_of(sweep, 1), testing::Not(HasSubstr("validation")));
  sweep.halving = {"steps", {40, 100}, 3};
  EXPECT_THAT(line_of(sweep, 0), HasSubstr("--set training.steps=40 "));
  EXPECT_THAT(line_of(sweep, 0), HasSubstr("--set validation.every_steps=20 "));
  sweep.set.emplace_back("validation.every_steps", 10);
  EXPECT_THAT(line_of(sweep, 0), testing::Not(HasSubstr("every_steps=20")));
}

TEST(ValueOf, IsTheLastOrTheBestOfTheRun) {
  const Folder folder;
  folder.write("run/metrics.jsonl",
               "{\"step\":1,\"loss\":3,\"validation_loss\":2}\n{\"step\":2,\"loss\":1}\n"
               "{\"step\":3,\"loss\":2,\"validation_loss\":0.5}\n"
               "{\"step\":4,\"loss\":2,\"validation_loss\":0.75}\n{\"step\":5,\"loss\":null}\n"
               "{\"step\":6,\"validation_lo");
  Sweep sweep;
  EXPECT_EQ(value_of(sweep, folder.path("run")), 0.75);
  sweep.take_best = true;
  EXPECT_EQ(value_of(sweep, folder.path("run")), 0.5);
  sweep.maximize = true;
  EXPECT_EQ(value_of(sweep, folder.path("run")), 2);
  sweep.monitor = "validation_accuracy";
  EXPECT_THROW(value_of(sweep, folder.path("run")), runtime::DataError);
  EXPECT_THROW(value_of(sweep, folder.path("none")), runtime::DataError);
}

TEST(SweepFolder, KeepsThePlanOfTheFirstStart) {
  const Folder folder;
  const std::string path = folder.path("out");
  std::vector<Trial> trials = {{{{"a.b", 1}, {"a.a", "x"}}}, {{{"a.b", 2}, {"a.a", "y"}}}};
  { const SweepFolder first(path, "text", /*resume=*/false, trials); }
  std::vector<Trial> other = {{{{"a.b", 3}}}};
  { const SweepFolder second(path, "text", /*resume=*/true, other); }
  ASSERT_EQ(other.size(), 2u);
  EXPECT_EQ(other[1].settings, trials[1].settings) << "in the order of the parameters";
  EXPECT_THROW(SweepFolder(path, "text", /*resume=*/false, trials), runtime::ConfigurationError);
  EXPECT_THROW(SweepFolder(path, "changed", /*resume=*/true, trials), runtime::ConfigurationError);
  folder.write("out/plan.json", "{");
  EXPECT_THROW(SweepFolder(path, "text", /*resume=*/true, trials), runtime::DataError);
}

TEST(SweepFolder, IsInUseByOneSweep) {
  const Folder folder;
  std::vector<Trial> trials;
  const SweepFolder first(folder.path("out"), "text", /*resume=*/false, trials);
  try {
    const SweepFolder second(folder.path("out"), "text", /*resume=*/false, trials);
    ADD_FAILURE() << "two sweeps in one folder";
  } catch (const runtime::ConfigurationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is in use"));
  }
}

}  // namespace
}  // namespace tools::sweep
