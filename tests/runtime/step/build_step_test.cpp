// Checks buffers, gradients, norms and frozen parameters of built steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "runtime/config/choices.h"
#include "runtime/error.h"
#include "runtime/exec/device_target.h"
#include "runtime/graph/operation_set.h"
#include "runtime/step/compile_step.h"
#include "runtime/step/make_strategy.h"
#include "runtime/step/optimizer.h"
#include "tests/runtime/support/devices.h"
#include "tests/runtime/support/names.h"

namespace runtime::step {
namespace {

using graph::kNone;
using graph::ValueKind;
using testing::HasSubstr;

model::Model two_layers() {
  model::Layer first, second;
  first.kind = model::Linear{5, true};
  first.name = "a";
  second.kind = model::Linear{3, true};
  second.name = "b";
  return {{6}, {first, second}, {}};
}

Step build(Purpose purpose, const TrainingSpec& training = {},
           const model::Model& model = two_layers()) {
  Strategy strategy;
  strategy.buckets.alignment = 256;
  const StepForm form{purpose, 4};
  return build_step({model, training, strategy, form});
}

// A name that the configuration accepts and that nothing is written for must not train somehow.
// Choices have two halves: what the configuration knows of them, and what runs them.
TEST(Choices, EachNameOfTheConfigurationIsWritten) {
  for (const config::OptimizerRow& row : config::optimizers()) {
    config::Optimizer optimizer;
    optimizer.name = row.name;
    EXPECT_FALSE(build_update(optimizer, 8, RT_FLOAT32).graph.nodes.empty()) << row.name;
  }
  for (const config::Loss& loss : config::losses()) {
    if (loss.of_classes()) continue;
    EXPECT_EQ(loss.formula.empty(), loss.gradient.empty()) << loss.name;
    const TrainingSpec training = {
        .loss = {loss.name, false, 0, attributes_of(loss, config::Training())}, .targets = 3};
    const Step step = build(Purpose::kTraining, training);
    std::set<std::string> losses;
    for (const graph::Node& node : step.graph.nodes) {
      const graph::Operation& row = operation_of(step.graph, node);
      if (row.kind == graph::Kind::kLoss) losses.insert(row.name);
      EXPECT_TRUE(row.name != loss.name || row.forward.precision == graph::Precision::kFloat32)
          << loss.name << " would read 16-bit predictions";
    }
    EXPECT_EQ(losses.size(), 2) << loss.name << " and its gradient";
  }
  std::vector<std::string> orders;
  for (const parallel::ScheduleKind& kind : parallel::schedule_kinds())
    orders.emplace_back(kind.name);
  const auto& keys = config::find_section("parallelism")->keys;
  test::expect_both_halves(config::find_key(keys, "pipeline_schedule")->choices,
                           "runtime/config/schema_sections.cpp", orders,
                           "runtime/parallel/schedule.cpp");
}

TEST(BuildStep, ANameThatNothingIsWrittenForIsAFaultOfTheProgram) {
  TrainingSpec training;
  training.optimizer.name = "later";
  EXPECT_THROW(optimizer_state(training.optimizer), InternalError);
  EXPECT_THROW(build(Purpose::kTraining, training), InternalError);
  config::Config config;
  config.training.recompute = "later";
  EXPECT_THROW(make_strategy(config, two_layers(), {}, {}, {}), InternalError);
  config = {};
  config.parallelism.pipeline = 2;
  config.parallelism.pipeline_schedule = "later";
  EXPECT_THROW(make_strategy(config, two_layers(), {}, {}, {.world_size = 2}), InternalError);
}

TEST(BuildStep, ParametersAndGradientsLieInTheSamePlaces) {
  const Step s = build(Purpose::kTraining);
  ASSERT_EQ(s.values.parameters.size(), 4u);
  for (size_t i = 0; i < s.values.parameters.size(); ++i) {
    const graph::Value& p = s.graph.value(s.values.parameters[i].value);
    const graph::Value& g = s.graph.value(s.values.gradients[i]);
    EXPECT_EQ(s.graph.value(p.base).name, "parameters");
    EXPECT_EQ(s.graph.value(g.base).name, "gradients");
    EXPECT_EQ(p.offset, g.offset);
    EXPECT_EQ(p.offset % 256, 0u);
    EXPECT_EQ(p.dims, g.dims);
    const uint64_t size = s.graph.value(p.base).bytes;
    EXPECT_LE(p.offset + graph::canonical_bytes(p), size);
  }
  EXPECT_EQ(s.graph.nodes.back().op, RT_OP_SGD);
  EXPECT_EQ(std::count_if(s.graph.nodes.begin(), s.graph.nodes.end(),
                          [](const graph::Node& n) { return n.phase == graph::Phase::kUpdate; }),
            1);
}

TEST(BuildStep, EvaluationHasNeitherGradientsNorUpdate) {
  const Step s = build(Purpose::kEvaluation);
  for (const graph::Node& n : s.graph.nodes) EXPECT_EQ(n.phase, graph::Phase::kForward) << n.op;
  EXPECT_TRUE(s.values.gradients.empty());
  EXPECT_NE(s.values.correct, kNone);
  EXPECT_TRUE(s.values.update.learning_rates.empty());
}

TEST(BuildStep, GradientsKeepTheOutputAndUpdateNothing) {
  const Step s = build(Purpose::kGradients);
  for (const graph::Node& n : s.graph.nodes) EXPECT_NE(n.phase, graph::Phase::kUpdate) << n.op;
  EXPECT_EQ(s.graph.value(s.values.output).kind, ValueKind::kOutput);
}

int64_t squares(const Step& s) {
  return std::count_if(s.graph.nodes.begin(), s.graph.nodes.end(),
                       [](const graph::Node& n) { return n.op == RT_OP_SQUARE_SUM; });
}

// The model has six layers; the biases of every second one lie on all ranks of the tensor axis.
TEST(BuildStep, TheNormOfTheGradientTakesFewLaunches) {
  model::Model model = two_layers();
  for (int i = 0; i < 4; ++i) {
    model.layers.push_back(model.layers[i % 2]);
    model.layers.back().name = "c" + std::to_string(i);
  }
  TrainingSpec training;
  training.max_norm = 1;
  Strategy strategy;
  const StepForm form{Purpose::kTraining, 4};
  EXPECT_EQ(squares(build_step({model, training, strategy, form})), 1);
  strategy.mesh.tensor = 2;
  for (const char* vectors_apart : {"all", "matrices"}) {
    training.optimizer.weight_decay = 0.1;
    training.optimizer.weight_decay_on = vectors_apart;
    const Step s = build_step({model, training, strategy, form});
    std::set<bool> whole;
    for (const parallel::ShardedParameter& p : s.values.sharded) whole.insert(p.split.is_whole());
    EXPECT_EQ(whole.size(), 2u) << "some are whole, some are split";
    EXPECT_EQ(squares(s), std::string(vectors_apart) == "all" ? 2 : 3);
  }
}

TEST(BuildStep, ARankAddsUpTheSquaresOfAllItsPartitionsAtOnce) {
  const model::Model model = two_layers();
  TrainingSpec training;
  training.max_norm = 1;
  Strategy strategy;
  strategy.mesh.data = strategy.batch.world_size = strategy.buckets.world_size = 2;
  strategy.buckets.bucket_bytes = strategy.buckets.first_bucket_bytes = 64;
  const StepForm form{Purpose::kTraining, 4};
  for (const int stage : {1, 2, 3}) {
    strategy.data.zero_stage = stage;
    exec::DeviceTarget target(test::open_device("reference"), {.tune = exec::Tune::kOff});
    const Step s = compile_step({model, training, strategy, form}, target);
    EXPECT_GT(s.values.buffers.layout.buckets.size(), 1u);
    EXPECT_EQ(squares(s),
              stage == 1 ? static_cast<int64_t>(s.values.buffers.layout.buckets.size()) : 1);
  }
}

// Without the copy, the memory of the view's base would be reused after the loss.
TEST(BuildStep, AnOutputThatIsAViewIsCopied) {
  model::Layer convolution, flatten;
  convolution.kind = model::Conv2d{.channels = 4, .kernel_h = 3, .kernel_w = 3, .convolution = {}};
  flatten.kind = model::Flatten{};
  for (const Purpose purpose : {Purpose::kGradients, Purpose::kEvaluation}) {
    const Step s = build(purpose, {}, {{2, 3, 3}, {convolution, flatten}, {}});
    EXPECT_EQ(s.graph.value(s.values.output).kind, ValueKind::kOutput);
    EXPECT_EQ(s.graph.storage(s.values.output), s.values.output);
  }
}

TEST(BuildStep, FrozenParametersHaveABufferOfTheirOwn) {
  TrainingSpec training;
  training.freeze = {"a.*"};
  const Step s = build(Purpose::kTraining, training);
  EXPECT_EQ(s.graph.value(s.graph.storage(s.values.parameters[0].value)).name, "frozen");
  EXPECT_EQ(s.values.gradients[0], kNone);
  EXPECT_EQ(s.graph.value(s.graph.storage(s.values.parameters[2].value)).name, "parameters");
  for (const graph::Node& n : s.graph.nodes) {
    EXPECT_TRUE(n.op != RT_OP_SGD || s.graph.value(n.outputs[0]).dims == graph::Dims{64 + 64});
  }
}

TEST(BuildStep, AModelWithoutParametersIsToldApartFromAFrozenOne) {
  model::Layer flatten;
  flatten.kind = model::Flatten{};
  const model::Model model{{2, 3, 3}, {flatten}, {}};
  TrainingSpec training;
  EXPECT_THAT(
      test::message_of<ConfigurationError>([&] { build(Purpose::kGradients, training, model); }),
      testing::AllOf(HasSubstr("no parameter to train"), testing::Not(HasSubstr("freeze"))));
  training.freeze = {"*"};
  EXPECT_THAT(test::message_of<ConfigurationError>([&] { build(Purpose::kGradients, training); }),
              HasSubstr("model.freeze leaves no parameter to train"));
}

}  // namespace
}  // namespace runtime::step
