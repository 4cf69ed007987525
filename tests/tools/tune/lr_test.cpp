// `runtime tune lr`.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/runtime/cli/shell.h"

namespace runtime::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kTableJob = R"(
[model]
input = [10]
layers = [ { type = "linear", features = 16, activation = "relu" }, { type = "linear", features = 1 } ]
[dataset]
format = "csv"
path = "table.csv"
task = "regression"
target = "y"
standardize = true
validation_split = 0.2
[training]
global_batch_size = 32
epochs = 3
[optimizer]
name = "sgd"
momentum = 0.9
[lr_scheduler]
name = "multi_step"
milestones = [1, 2]
warmup_steps = 7
[early_stopping]
patience = 3
restore_best = true
[checkpoint]
keep_best = 1
[device]
backend = "reference"
)";

class TuneLr : public ShellTest {
 protected:
  TuneLr() {
    folder_.write("job.toml", kTableJob);
    folder_.write("table.csv", test::read_text(CONFIGS_FOLDER "/data/friedman1.csv"));
  }
  nlohmann::json tune(const std::string& options) {
    const test::ProcessResult r = shell("runtime tune lr job.toml --output out.json " + options);
    EXPECT_EQ(r.exit_code, 0) << r.err;
    out_ = r.out;
    std::ifstream file(folder_.path() / "out.json");
    return nlohmann::json::parse(file, nullptr, false);
  }
  std::string out_;
};

TEST_F(TuneLr, RatesGrowByTheSameFactorUntilTheLossDiverges) {
  const nlohmann::json j = tune("--from 1e-5 --to 100 --steps 141");
  EXPECT_EQ(j["diverged"], true);
  const auto& points = j["points"];
  ASSERT_GT(points.size(), 30u);
  ASSERT_LT(points.size(), 141u);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_NEAR(std::log10(points[i]["lr"].get<double>()), -5 + static_cast<double>(i) / 20, 1e-9);
  }
  const double suggestion = j["suggestion"];
  EXPECT_GT(suggestion, 1e-5);
  EXPECT_LT(suggestion, points.back()["lr"]);
  EXPECT_DOUBLE_EQ(j["lowest_divided_by_ten"], j["lowest"].get<double>() / 10);
  EXPECT_THAT(out_, HasSubstr("\n[optimizer]\nlr = "));
}

// The losses are those of a run whose schedule is written into the configuration.
TEST_F(TuneLr, TrainsLikeAnyRun) {
  const nlohmann::json j = tune("--from 1e-4 --to 1e-2 --steps 21");
  const test::ProcessResult r = shell(
      "runtime train job.toml --set job.dump_folder=run --set training.steps=21 --set "
      "optimizer.lr=1e-4 --set lr_scheduler.name=exponential --set lr_scheduler.gamma=100 --set "
      "lr_scheduler.decay_steps=20 --set lr_scheduler.milestones=[] --set "
      "lr_scheduler.warmup_steps=0 --set metrics.log_every_steps=1 --set validation.every_epochs=0 "
      "--set early_stopping.patience=0 --set early_stopping.restore_best=false --set "
      "checkpoint.keep_best=0");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  std::ifstream file(folder_.path() / "run/metrics.jsonl");
  size_t i = 0;
  for (std::string line; std::getline(file, line); ++i) {
    EXPECT_EQ(nlohmann::json::parse(line)["loss"], j["points"].at(i)["loss"]);
    EXPECT_EQ(nlohmann::json::parse(line)["lr"], j["points"].at(i)["lr"]);
  }
  EXPECT_EQ(i, 21u);
  EXPECT_EQ(j["diverged"], false);
}

TEST_F(TuneLr, TheRateIsThatBeforeItIsScaledWithTheBatch) {
  const nlohmann::json plain = tune("--from 1e-4 --to 1e-2 --steps 40"),
                       scaled = tune(
                           "--from 1e-4 --to 1e-2 --steps 40 --set "
                           "lr_scheduler.scale_with_batch=linear --set "
                           "lr_scheduler.reference_batch_size=64");
  EXPECT_NEAR(scaled["points"][39]["lr"].get<double>(), 1e-2, 1e-9);
  EXPECT_NE(scaled["points"][39]["loss"], plain["points"][39]["loss"]);
}

TEST_F(TuneLr, LeavesNoFiles) {
  const std::string before = shell("mkdir -p t cache; ls").out;
  shell("TMPDIR=$PWD/t runtime tune lr job.toml --from 1e-4 --to 1e-1 --steps 30");
  EXPECT_EQ(shell("ls t").out, "");
  EXPECT_EQ(shell("ls").out, before);
}

TEST_F(TuneLr, WithoutADescentThereIsAnError) {
  const test::ProcessResult r = shell(
      "runtime tune lr job.toml --from 1e-30 --to 1e-25 --steps 20 --set optimizer.momentum=0 "
      "--set dataset.shuffle=false --set training.global_batch_size=1600");
  EXPECT_EQ(r.exit_code, 6) << r.out;
  EXPECT_THAT(r.err, HasSubstr("the loss falls at none of the 20 rates"));
}

TEST_F(TuneLr, ErrorsAreThoseOfTheProgram) {
  const test::ProcessResult r = shell("runtime tune lr job.toml --set optimizer.lrr=1");
  EXPECT_EQ(r.exit_code, 2);
  EXPECT_THAT(r.err, HasSubstr("unknown key, did you mean \"lr\"?"));
  EXPECT_EQ(shell("runtime tune lr job.toml --from 1 --to 0.1").exit_code, 2);
  EXPECT_EQ(shell("runtime tune lr job.toml --set dataset.path=nothing.csv").exit_code, 5);
}

}  // namespace
}  // namespace runtime::cli
