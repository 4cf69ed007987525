// Measures what ranks cost each other, and plans a rank that is never started.
#include "runtime/analysis/scaling.h"

#include <gmock/gmock.h>

#include "runtime/session/reports/screen.h"
#include "runtime/train/rank/step_programs.h"
#include "runtime/train/run/loop.h"
#include "tests/runtime/exec/local_ranks.h"
#include "tests/runtime/train/job.h"

namespace runtime::analysis {
namespace {

using testing::Each;

class Forms : public testing::TestWithParam<std::vector<config::Override>> {};

TEST_P(Forms, MeasuringKeepsParameters) {
  const auto errors = exec::on_local_ranks(3, [](exec::LocalRank& r) {
    const config::Config config = test::parse(train::kTiny, GetParam());
    const data::DatasetPair data = train::open_data(config, nullptr);
    exec::CompileOptions options{{.tune = exec::Tune::kOff}};
    options.collectives = &r.collectives;
    const Planner planner{data.train->spec(), test::open_device("reference"), options};
    const auto programs = std::make_shared<train::StepPrograms>(
        train::RankSetup(config, data.train->spec(), planner.device, options));
    train::Trainer trainer(programs);
    const auto reporter = session::make_tee({});
    train::RunOptions run;
    run.max_steps = 4;
    const train::RunResult result = run_training(config, data, *programs, trainer, *reporter, run);
    EXPECT_EQ(result.cost.steps, 2);  // half of the steps are warm-up if there are so few
    EXPECT_GT(result.cost.seconds, result.cost.all_exposed());
    EXPECT_GT(result.cost.all_exposed(), 0);
    const data::TensorFile before = trainer.weights();
    Scaling s = measure_scaling(config, *programs, &r.collectives, "local", result.cost, planner);
    if (r.collectives.rank() == 0) add_plan(s, config, planner);
    EXPECT_EQ(s.measured.ranks, 3);
    EXPECT_GT(s.measured.sync, 0);
    EXPECT_EQ(s.measured.sync, s.measured.sync_by_axis[parallel::kDataAxis]);
    EXPECT_FALSE(s.predicted.has_value());  // reference estimates no times, and none are measured
    EXPECT_EQ(s.allocated.size(), 3u);
    const data::TensorFile after = trainer.weights();
    for (const auto& [name, tensor] : before.tensors)
      EXPECT_EQ(tensor.bytes, after.tensors.at(name).bytes) << name;
  });
  EXPECT_THAT(errors, Each(""));
}

INSTANTIATE_TEST_SUITE_P(
    Steps, Forms,
    testing::Values(std::vector<config::Override>{},
                    std::vector<config::Override>{{"parallelism.zero_stage", "1"}},
                    std::vector<config::Override>{{"training.micro_batch_size", "1"}},
                    std::vector<config::Override>{{"debug.deterministic", "true"},
                                                  {"debug.virtual_shards", "4"}}));

}  // namespace
}  // namespace runtime::analysis
