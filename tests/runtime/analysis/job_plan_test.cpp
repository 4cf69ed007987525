// Compares plans of ranks that are never started with numbers computed by hand and with ranks that
// run.
#include "runtime/analysis/job_plan.h"

#include <gmock/gmock.h>

#include "runtime/analysis/scaling.h"
#include "runtime/analysis/search.h"
#include "runtime/error.h"
#include "runtime/launch/job.h"
#include "runtime/launch/open_device.h"
#include "runtime/step/ranks.h"
#include "runtime/train/checkpoint/rank_state.h"
#include "runtime/train/rank/step_programs.h"
#include "tests/runtime/train/job.h"
#include "tests/runtime/train/ranks_nets.h"

namespace runtime::analysis {
namespace {

using testing::HasSubstr;
// clang-tidy does not see that `settings + settings` needs it.
// NOLINTNEXTLINE(misc-unused-using-decls)
using train::operator+;

// 8 x 16 + 16 x 4 = 192 weights; steps of 8 samples.
const std::string kByHand = R"(
[model]
input = [8]
layers = [ { type = "linear", name = "a", features = 16, bias = false, activation = "relu" },
           { type = "linear", name = "b", features = 4, bias = false } ]
[dataset]
name = "synthetic"
samples = 64
classes = 4
[training]
global_batch_size = 8
[optimizer]
name = "adamw"
)";
constexpr uint64_t kFloat = 4;

class Plans : public testing::Test {
 protected:
  JobPlan plan(const std::string& toml, int ranks, const train::Settings& settings = {},
               exec::Tune tune = exec::Tune::kOff) {
    config_ = step::resolve_ranks(test::parse(toml, settings), ranks);
    return planner(tune).plan(config_, ranks);
  }
  Planner planner(exec::Tune tune = exec::Tune::kOff) {
    Planner p;
    p.spec = train::open_data(config_, nullptr).train->spec();
    p.device = test::open_device("reference");
    p.options = {tune, false, {}};
    p.cluster = parallel::one_node({1e-3, 1e6, false});
    return p;
  }

  config::Config config_;
};

train::Settings mesh(int tensor, int pipeline, int microbatches = 2) {
  return {{"parallelism.tensor", std::to_string(tensor)},
          {"parallelism.pipeline", std::to_string(pipeline)},
          {"parallelism.microbatches", std::to_string(microbatches)}};
}

TEST_F(Plans, OneRank) {
  const JobPlan p = plan(kByHand, 1);
  ASSERT_EQ(p.roles.size(), 1u);
  const RankMemory& m = p.roles[0].memory;
  // 128 numbers of a, and 64 of b, which take 512 bytes because parameters are aligned to that.
  EXPECT_EQ(m.parameters, 256 * kFloat);
  EXPECT_EQ(m.gradients, 256 * kFloat);
  EXPECT_EQ(m.state, (2 * 256 + 1) * kFloat);  // two moments, and the 1 that gradients begin with
  EXPECT_EQ(p.roles[0].layers, "a to loss");
  // Two products in the forward pass; in the backward pass one for each weight and one for the
  // hidden layer.
  EXPECT_NEAR(p.roles[0].flops, 2 * 8 * (2 * 128 + 3 * 64), 0.15 * p.roles[0].flops);
  EXPECT_EQ(p.source, JobPlan::Times::kEstimated);
  EXPECT_EQ(p.prediction.times.compute, 0);  // reference estimates no times
}

TEST_F(Plans, DataParallelRanksSendGradientsAndTheLoss) {
  const JobPlan p = plan(kByHand, 2);
  EXPECT_EQ(p.roles[0].ranks, (std::vector<int>{0, 1}));
  // The bucket is padded, so that each rank's half is a multiple of 512 bytes.
  EXPECT_EQ(p.roles[0].memory.parameters, 256 * kFloat);
  EXPECT_DOUBLE_EQ(p.prediction.ranks[0].wire_bytes[parallel::kDataAxis], 257 * kFloat);
}

TEST_F(Plans, ASearchSaysHowFarItIs) {
  plan(kByHand, 1);
  std::vector<std::string> said;
  const auto found = search(config_, 4, planner(), [&](size_t done, size_t all, const auto& mesh) {
    said.push_back(std::to_string(done) + "/" + std::to_string(all) + " " + to_string(mesh));
  });
  ASSERT_EQ(said.size(), found.size());
  EXPECT_EQ(said.front().substr(0, 3), "0/6");
  EXPECT_EQ(said.back().substr(0, 3), "5/6");
}

// Empty micro-batches would be computed as padding.
TEST_F(Plans, AutomaticMicroBatchesAreNotMoreThanTheSamples) {
  const auto flops = [&](const char* microbatches, const char* batch) {
    return plan(kByHand, 2,
                {{"parallelism.pipeline", "2"},
                 {"parallelism.microbatches", microbatches},
                 {"training.global_batch_size", batch}})
        .roles[0]
        .flops;
  };
  EXPECT_EQ(flops("auto", "2"), flops("2", "2"));
  EXPECT_LT(flops("auto", "2"), flops("8", "2"));
  EXPECT_EQ(flops("auto", "16"), flops("8", "16"));
}

TEST_F(Plans, TensorParallelRanksHoldHalf) {
  const JobPlan p = plan(kByHand, 2, mesh(2, 1));
  ASSERT_EQ(p.roles.size(), 1u);
  EXPECT_EQ(p.roles[0].ranks, (std::vector<int>{0, 1}));
  // 64 numbers of a and 32 of b take 512 bytes each.
  EXPECT_EQ(p.roles[0].memory.parameters, 256 * kFloat);
  EXPECT_EQ(p.roles[0].memory.gradients, 256 * kFloat);
  const parallel::RankPrediction& rank = p.prediction.ranks[0];
  EXPECT_DOUBLE_EQ(rank.wire_bytes[parallel::kDataAxis], 0);
  EXPECT_DOUBLE_EQ(rank.wire_bytes[parallel::kTensorAxis], 8 * 4 * kFloat);  // output sum
}

TEST_F(Plans, StagesOfAPipelineHoldTheirLayers) {
  const JobPlan p = plan(kByHand, 2, mesh(1, 2));
  ASSERT_EQ(p.roles.size(), 2u);
  EXPECT_EQ(p.roles[0].layers, "a to a");
  EXPECT_EQ(p.roles[1].layers, "b to loss");
  EXPECT_EQ(p.roles[0].memory.parameters, 128 * kFloat);
  EXPECT_EQ(p.roles[1].memory.parameters, 128 * kFloat);
  // The hidden layer of all micro-batches is sent forward, its gradient and the loss are sent back.
  const auto sent = [&](int place) {
    return p.prediction.ranks[place].wire_bytes[parallel::kPipelineAxis];
  };
  EXPECT_DOUBLE_EQ(sent(0), (8 * 16 + 1) * kFloat);
  EXPECT_DOUBLE_EQ(sent(1), (8 * 16 + 1) * kFloat);
}

TEST_F(Plans, AMeshHasAllOfIt) {
  const JobPlan p = plan(kByHand, 8, mesh(2, 2));
  EXPECT_EQ(p.mesh.data, 2);
  ASSERT_EQ(p.roles.size(), 2u);
  EXPECT_EQ(p.roles[1].ranks, (std::vector<int>{4, 5, 6, 7}));
  for (int axis = 0; axis < parallel::kAxes; ++axis)
    EXPECT_GT(p.prediction.times.sync_by_axis[axis], 0) << axis;
}

TEST_F(Plans, OperationsAreMeasuredOnTheDevice) {
  const JobPlan p = plan(kByHand, 2, mesh(1, 2), exec::Tune::kQuick);
  EXPECT_EQ(p.source, JobPlan::Times::kMeasured);
  EXPECT_GT(p.prediction.times.compute, 0);
  EXPECT_GT(p.prediction.times.bubble(), 0);
  JobPlan with_alone = p;
  planner(exec::Tune::kQuick).predict_alone(config_, with_alone);
  EXPECT_GT(with_alone.prediction.times.compute_alone, 0);
}

TEST_F(Plans, OperationsTakeWhatTheSheetSays) {
  config_ = step::resolve_ranks(test::parse(kByHand, {}), 1);
  Planner p = planner(exec::Tune::kQuick);
  const auto seconds = [&](double bytes_per_second, double flops_per_second, double launch) {
    p.sheet = DeviceSheet{{bytes_per_second, flops_per_second, launch}, 123};
    const JobPlan plan = p.plan(config_, 1);
    EXPECT_EQ(plan.source, JobPlan::Times::kComputed);
    EXPECT_EQ(plan.memory_limit, 123u);
    EXPECT_FALSE(plan.fits());
    return plan.prediction.times.compute;
  };
  const double arithmetic = seconds(1e30, 1, 0), traffic = seconds(1, 1e30, 0);
  EXPECT_NEAR(arithmetic, plan(kByHand, 1).roles[0].flops, 0.01 * arithmetic);
  // Each product reads its weights once, forward and backward, and each gradient is written.
  EXPECT_GT(traffic, 5 * 192 * kFloat);
  EXPECT_NEAR(seconds(1e30, 0.5, 0), 2 * arithmetic, 1e-9 * arithmetic);
  const double launches = seconds(1e30, 1e30, 1);
  EXPECT_NEAR(launches, std::round(launches), 1e-9);
  EXPECT_GT(launches, 5);
  EXPECT_TRUE(p.times->empty());  // nothing was measured
}

// The roles of a plan share the cut of the pipeline.
TEST_F(Plans, RolesAreThoseOfRanksThatArePlannedAlone) {
  for (const char* batch : {"8", "24"}) {
    for (const auto& [tensor, pipeline] : {std::pair{1, 2}, {2, 2}, {1, 3}, {2, 4}}) {
      const int ranks = 2 * tensor * pipeline;
      const JobPlan p =
          plan(train::kSmallLeNet, ranks,
               mesh(tensor, pipeline) + train::Settings{{"training.global_batch_size", batch}});
      const Planner shared = planner();
      ASSERT_EQ(p.roles.size(), static_cast<size_t>(pipeline));
      for (const RolePlan& role : p.roles) {
        train::StepPrograms alone(train::RankSetup(config_, shared.spec, shared.device,
                                                   shared.options,
                                                   train::PlannedRank{role.ranks.front(), ranks}));
        alone.any_compiled();
        alone.compiled(train::full_step(alone).back());
        const RankMemory memory = memory_of(alone);
        EXPECT_EQ(role.memory.parameters, memory.parameters) << role.layers;
        EXPECT_EQ(role.memory.total(), memory.total()) << role.layers;
      }
    }
  }
}

TEST_F(Plans, EachKindOfOperationIsMeasuredOnce) {
  plan(kByHand, 1);
  const Planner p = planner(exec::Tune::kQuick);
  const JobPlan first = p.plan(config_, 1);
  const size_t kinds = p.times->size();
  EXPECT_GT(kinds, 0u);
  const JobPlan second = p.plan(config_, 1);
  EXPECT_EQ(p.times->size(), kinds);
  EXPECT_EQ(second.source, JobPlan::Times::kMeasured);
  // Nothing was measured again: two measurements are never the same.
  EXPECT_EQ(first.prediction.times.compute, second.prediction.times.compute);
}

TEST_F(Plans, NoMemoryIsTakenForWhatIsPlanned) {
  config_ = test::parse(kByHand, {});
  const Planner p = planner();
  const uint64_t before = p.device->memory_info().allocated_bytes;
  train::StepPrograms programs(
      train::RankSetup(config_, p.spec, p.device, p.options, train::PlannedRank{0, 2}));
  exec::Program& program = *programs.any_compiled().program;
  EXPECT_EQ(p.device->memory_info().allocated_bytes, before);
  EXPECT_THROW(program.run(programs.stream()), CommunicationError);
}

// ---- comparison with ranks that run

// Compares the memory that each rank's device has allocated with the plan.
void expect_planned_memory(const std::string& toml, int ranks, const train::Settings& settings) {
  const config::Config job =
      test::parse(toml, settings + train::Settings{{"plugins.path", train::plugin_folders()},
                                                   {"training.global_batch_size", "8"},
                                                   {"launch.ranks", std::to_string(ranks)},
                                                   {"comm.backend", "\"local\""},
                                                   {"device.backend", "\"reference\""},
                                                   {"device.tune", "\"off\""}});
  const auto body = [&](launch::Rank& rank) {
    const config::Config config = step::resolve_ranks(rank.config, rank.place.world_size);
    const data::DatasetPair data = train::open_data(config, nullptr);
    exec::CompileOptions options{{.tune = exec::Tune::kOff}};
    options.collectives = rank.collectives;
    const Planner planner{
        data.train->spec(),
        launch::open_device(config, *rank.registry, rank.place.local_rank, nullptr), options};
    const auto programs = std::make_shared<train::StepPrograms>(
        train::RankSetup(config, planner.spec, planner.device, options));
    train::Trainer trainer(programs);
    data::Loader loader(data.train, train::train_loader_options(config, trainer.split()));
    for (int i = 0; i < 3; ++i) trainer.step(loader.next(), 0.1);
    while (trainer.next_result(true)) {
    }
    Scaling s = measure_scaling(config, *programs, rank.collectives, rank.backend,
                                train::StepCost{3, 1e-3, {}}, planner);
    rank.on_main("the plan", [&] { add_plan(s, config, planner); });
    double written = 0;
    for (const train::HeldTensor& held : train::held_tensors(programs->rank_model()))
      written += held.writes ? static_cast<double>(held.bytes()) : 0;
    const double most_written = programs->setup().maximum({written})[0];
    if (!rank.main()) return;
    uint64_t most_planned = 0;
    for (const RolePlan& role : s.plan.roles)
      most_planned = std::max(most_planned, role.checkpoint_bytes);
    EXPECT_EQ(static_cast<double>(most_planned), most_written);
    for (const RolePlan& role : s.plan.roles) {
      for (const int r : role.ranks) {
        const auto planned = static_cast<double>(role.memory.total());
        EXPECT_NEAR(static_cast<double>(s.allocated[r]), planned, 0.1 * planned) << "rank " << r;
        EXPECT_EQ(s.used[r].parameters, role.memory.parameters) << "rank " << r;
      }
    }
    EXPECT_THAT(explain_memory(s), HasSubstr("allocated, planned"));
  };
  EXPECT_EQ(launch::run_ranks(job, {}, {}, body), 0);
}

TEST(PlannedMemory, Data) { expect_planned_memory(train::kSmallLeNet, 2, {}); }
TEST(PlannedMemory, Zero) {
  expect_planned_memory(train::kSmallLeNet, 2,
                        {{"parallelism.zero_stage", "2"}, {"optimizer.name", "\"adamw\""}});
}
TEST(PlannedMemory, Tensor) { expect_planned_memory(train::kSmallLeNet, 2, mesh(2, 1)); }
TEST(PlannedMemory, Pipeline) { expect_planned_memory(train::kSmallLeNet, 2, mesh(1, 2)); }
TEST(PlannedMemory, Mesh) { expect_planned_memory(train::kSmallLeNet, 4, mesh(2, 2)); }

// ---- parallelism.search

class Search : public Plans {
 protected:
  std::vector<Candidate> search(int ranks, const train::Settings& settings = {},
                                exec::Tune tune = exec::Tune::kQuick) {
    config_ = test::parse(kByHand, settings + train::Settings{{"parallelism.search", "true"}});
    return analysis::search(config_, ranks, planner(tune));
  }
};

TEST_F(Search, AllMeshesTheFastestFirst) {
  const std::vector<Candidate> list = search(4);
  ASSERT_EQ(list.size(), 6u);
  // Two layers cannot be cut into four stages.
  EXPECT_EQ(list.back().mesh.pipeline, 4);
  EXPECT_THAT(list.back().reason, HasSubstr("stages"));
  for (size_t i = 1; i + 1 < list.size(); ++i) {
    EXPECT_EQ(list[i].reason, "");
    EXPECT_LE(list[i - 1].plan.prediction.times.step(), list[i].plan.prediction.times.step());
  }
  const Candidate& best = best_of(list);
  EXPECT_FALSE(best.config.parallelism.search);
  EXPECT_EQ(best.config.parallelism.tensor, best.mesh.tensor);
  // One all-reduce of a millisecond, compared with several: the slow link alone decides.
  EXPECT_EQ(best.mesh.pipeline, 1);
}

TEST_F(Search, WhatTheConfigurationRulesOutIsListedWithItsReason) {
  const std::vector<Candidate> list =
      search(2, {{"debug.deterministic", "true"}, {"debug.virtual_shards", "4"}});
  EXPECT_EQ(best_of(list).mesh.data, 2);
  EXPECT_THAT(list[1].reason, HasSubstr("debug.deterministic does not go with"));
  EXPECT_EQ(list[1].reason.find(';'), std::string::npos);
}

TEST_F(Search, WhatDoesNotFitIsPlannedButNotTaken) {
  const std::vector<Candidate> list =
      search(2,
             {{"model.layers",
               "[{type = \"linear\", features = 2000000}, {type = \"linear\", features = 2000000}, "
               "{type = \"linear\", features = 4}]"}},
             exec::Tune::kOff);
  ASSERT_EQ(list.size(), 3u);
  for (const Candidate& c : list) {
    EXPECT_EQ(c.reason, "does not fit the memory") << to_string(c.mesh);
    EXPECT_GT(c.plan.peak(), uint64_t{10} << 40);
  }
  EXPECT_THROW(best_of(list), ConfigurationError);
}

// A device with so much memory, on which nothing but arithmetic takes time.
DeviceSheet sheet_with(uint64_t memory) { return {{1e30, 1e9, 0}, memory}; }

TEST_F(Search, ChangesOtherKeysUntilAJobFits) {
  config_ = test::parse(train::kSmallLeNet, {{"parallelism.search", "true"},
                                             {"optimizer.name", "\"adamw\""},
                                             {"training.global_batch_size", "32"}});
  Planner p = planner();
  p.sheet = sheet_with(uint64_t{1} << 40);
  const auto of_data_axis = [&] {
    const std::vector<Candidate> list = analysis::search(config_, 2, p);
    return *std::find_if(list.begin(), list.end(),
                         [](const Candidate& c) { return c.mesh.data == 2; });
  };
  const Candidate free = of_data_axis();
  ASSERT_EQ(free.reason, "");
  // Partitions of the state make the update shorter, and nothing else is worth it.
  EXPECT_EQ(free.config.training.recompute, "none");
  uint64_t needs = free.plan.peak();
  bool smaller_passes = false;
  for (int i = 0; i < 4; ++i) {
    p.sheet = sheet_with(needs - 1);
    const Candidate tight = of_data_axis();
    if (!tight.plan.fits()) break;
    EXPECT_EQ(tight.reason, "");
    EXPECT_LT(tight.plan.peak(), needs);
    EXPECT_NE(chosen_keys(tight.config), chosen_keys(free.config));
    smaller_passes |= tight.config.training.micro_batch_size > 0;
    needs = tight.plan.peak();
  }
  EXPECT_TRUE(smaller_passes) << needs;
  p.sheet = sheet_with(1000);
  EXPECT_EQ(of_data_axis().reason, "does not fit the memory");
}

TEST_F(Search, SaysWhatItDoesNotPlan) {
  config_ = test::parse(kByHand, {{"parallelism.search", "true"},
                                  {"training.global_batch_size", "4096"},
                                  {"dataset.samples", "4096"}});
  Planner p = planner();
  p.sheet = sheet_with(0);
  for (const Candidate& c : analysis::search(config_, 128, p)) {
    if (c.mesh.pipeline == 128) {
      EXPECT_THAT(c.reason, HasSubstr("more than 1024 micro-batches"));
    }
    if (c.mesh.tensor > 16) {
      EXPECT_NE(c.reason, "") << to_string(c.mesh);
    }
  }
}

// With a batch for each rank the step of a wide data axis has more samples.
TEST_F(Search, ComparesSamplesAndNotSteps) {
  config_ = test::parse(kByHand, {{"parallelism.search", "true"},
                                  {"dataset.samples", "65536"},
                                  {"training.batch_size_per_rank", "16384"}});
  Planner p = planner();
  p.sheet = sheet_with(0);
  p.cluster = parallel::one_node({1e-6, 1e9, false});
  const std::vector<Candidate> list = analysis::search(config_, 2, p);
  EXPECT_EQ(best_of(list).mesh.data, 2);
  ASSERT_EQ(list[1].reason, "");
  const auto longest = std::max_element(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return a.plan.prediction.times.step() < b.plan.prediction.times.step();
  });
  EXPECT_EQ(longest->mesh.data, 2) << "a test of nothing: steps and samples agree";
}

// Pipelines are found where one stage is refused, whatever the keys say that the search may change.
TEST_F(Search, BeginsPipelinesWithWhatTheyAllow) {
  const train::Settings search = {{"parallelism.search", "true"}, {"optimizer.name", "\"adamw\""}};
  for (const auto& [key, value] : {std::pair{"training.global_batch_size", "2"},
                                   {"training.micro_batch_size", "1"},
                                   {"parallelism.zero_stage", "3"}}) {
    config_ = test::parse(train::kSmallLeNet, search + train::Settings{{key, value}});
    Planner p = planner();
    p.sheet = sheet_with(uint64_t{1} << 40);
    const std::vector<Candidate> list = analysis::search(config_, 4, p);
    EXPECT_TRUE(std::any_of(list.begin(), list.end(), [](const Candidate& c) {
      return c.mesh.data == 2 && c.mesh.pipeline == 2 && !c.plan.roles.empty();
    })) << key;
    EXPECT_EQ(best_of(list).reason, "") << key;
  }
}

// Nodes hold copies of ZeRO's partitions where the network is slow and the memory is not enough for
// whole ones.
TEST_F(Search, DividesInsideNodes) {
  const train::Settings all = {{"training.global_batch_size", "64"},
                               {"dataset.samples", "64"},
                               {"optimizer.name", "\"adamw\""},
                               {"cluster.nodes", "2"},
                               {"cluster.devices_per_node", "4"}};
  config_ = test::parse(train::kSmallLeNet, all + train::Settings{{"parallelism.search", "true"}});
  Planner p = planner();
  p.cluster = {4, {1e-6, 1e11, true}, {1e-4, 1e8, true}};
  const auto plan_with = [&](const char* zero_ranks) {
    return p.plan(step::resolve_ranks(
                      test::parse(train::kSmallLeNet,
                                  all + train::Settings{{"parallelism.zero_stage", "3"},
                                                        {"parallelism.zero_ranks", zero_ranks}}),
                      8),
                  8);
  };
  p.sheet = sheet_with(uint64_t{1} << 40);
  const JobPlan inside = plan_with("4"), over_all = plan_with("0");
  EXPECT_LT(inside.prediction.times.step(), over_all.prediction.times.step());
  EXPECT_GT(inside.peak(), over_all.peak());
  p.sheet = sheet_with(inside.peak());
  const std::vector<Candidate> list = analysis::search(config_, 8, p);
  const auto data =
      std::find_if(list.begin(), list.end(), [](const Candidate& c) { return c.mesh.data == 8; });
  ASSERT_EQ(data->reason, "");
  EXPECT_EQ(data->config.parallelism.zero_ranks, 4) << chosen_keys(data->config);
  EXPECT_LE(data->plan.prediction.times.step(), inside.prediction.times.step());
}

// A step that another way of cutting it makes shorter is not proposed.
TEST_F(Search, IsNotSlowerThanAnythingThatItMayChange) {
  const train::Settings all = {{"training.global_batch_size", "16"},
                               {"dataset.samples", "64"},
                               {"optimizer.name", "\"adamw\""}};
  config_ = test::parse(train::kSmallLeNet, all + train::Settings{{"parallelism.search", "true"}});
  Planner p = planner();
  p.sheet = DeviceSheet{{1e10, 1e10, 1e-6}, uint64_t{1} << 40};
  const double found = best_of(analysis::search(config_, 4, p)).plan.prediction.times.step();
  for (const auto& [tensor, pipeline] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    for (const char* zero : {"0", "1"}) {
      const config::Config fixed = step::resolve_ranks(
          test::parse(train::kSmallLeNet,
                      all + train::Settings{{"parallelism.tensor", std::to_string(tensor)},
                                            {"parallelism.pipeline", std::to_string(pipeline)},
                                            {"parallelism.zero_stage", zero}}),
          4);
      EXPECT_LE(found, 1.02 * p.plan(fixed, 4).prediction.times.step()) << chosen_keys(fixed);
    }
  }
}

}  // namespace
}  // namespace runtime::analysis
